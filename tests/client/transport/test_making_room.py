"""What nobody uses any more is freed on the server, and before what needs its room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import grpc
import pytest
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import DATA, F32, HEADER, ScriptedServer, sent, submit
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire.transport.descriptions import Blob, ModelContents, ModelSource
from inferwire.transport.executions import ExecutionHeader, SequenceMark, StoredBox
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import models_pb2, types_pb2


def freeing(server: ScriptedServer, calls: list[str]) -> Callable[[str, bytes], Callable[..., bytes]]:
    """Note calls as they are answered. A release takes its time: until another call has come, or would have."""
    others = threading.Event()

    def release(data: bytes, context: grpc.ServicerContext) -> bytes:
        others.wait(0.3)
        others.clear()
        calls.append("Release")
        return b""

    def note(name: str, answer: bytes) -> Callable[..., bytes]:
        def called(data: bytes, context: grpc.ServicerContext) -> bytes:
            others.set()
            calls.append(name)
            return answer

        return called

    server.unary["Release"] = release
    return note


def test_what_nobody_uses_is_freed_before_what_may_need_its_room(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    calls: list[str] = []
    note = freeing(server, calls)
    server.unary["Compile"] = note("Compile", models_pb2.CompileResponse(compiled_id="c").SerializeToString())
    server.unary["Import"] = note("Import", models_pb2.ImportResponse(compiled_id="i").SerializeToString())
    server.unary["Upload"] = lambda data, context: b""
    contents = ModelContents(ModelSource(b"sha", b"", ".onnx", {}, {}), (Blob(DATA, b"sha"),), tuple)
    actions = {
        "Compile": lambda: transport.compile(contents, "CPU", {}),
        "Import": lambda: transport.import_compiled(Blob(DATA, b"sha"), "CPU", {}),
    }
    submit(transport, Endings())
    for action in actions.values():
        transport.tensors.release(transport.tensors.new_id())
        action()
    assert calls == ["Release", "Compile", "Release", "Import"]


def test_a_tensor_that_finds_no_room_is_asked_for_again_once_others_are_freed(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    calls: list[str] = []

    def needs_room(data: bytes, context: grpc.ServicerContext) -> bytes:
        if calls.count("Release") == 0:
            calls.append("refused")
            context.set_trailing_metadata(((CODE_METADATA, "TOO_LARGE"),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")
        calls.append("made")
        return b""

    for name in ("CreateTensor", "PutTensor"):
        freeing(server, calls)
        server.unary[name] = needs_room
        with pytest.raises(ov.TooLarge, match="too much"):
            make(transport, name)
        assert calls == ["refused", "refused"]
        calls.clear()
        transport.tensors.release(transport.tensors.new_id())
        make(transport, name)
        assert calls in (["refused", "Release", "made"], ["Release", "made"])
        calls.clear()


def make(transport: GrpcTransport, name: str) -> None:
    if name == "CreateTensor":
        transport.tensors.create(transport.tensors.new_id(), F32, (2,))
    else:
        transport.tensors.put(StoredBox(1), F32, (2,), DATA)


def test_an_id_for_a_sequence_is_had_without_a_call(server: ScriptedServer, transport: GrpcTransport) -> None:
    is_open = threading.Event()
    waited: SimpleQueue[bool] = SimpleQueue()

    def release(data: bytes, context: grpc.ServicerContext) -> bytes:
        waited.put(is_open.wait(LIMIT_S))
        return b""

    server.unary["Release"] = release
    submit(transport, Endings())
    transport.tensors.release(transport.tensors.new_id())
    assert transport.states.new_id() == 1
    is_open.set()
    assert waited.get(timeout=LIMIT_S), "the server had not answered yet"


def refusing_until_released(server: ScriptedServer, calls: list[str], method: str) -> None:
    """Have no room for a sequence until something was freed."""

    def get_states(data: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append(method)
        if "Release" not in calls:
            context.set_trailing_metadata(((CODE_METADATA, "QUEUE_FULL"),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "as many sequences as may be")
        return b""

    def release(data: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append("Release")
        return b""

    server.unary |= {method: get_states, "Release": release}


def test_a_sequence_that_finds_no_room_begins_once_others_are_freed(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    target = HEADER.target
    calls: list[str] = []
    refusing_until_released(server, calls, "ResetStates")
    with pytest.raises(ov.QueueFull, match="as many sequences"):
        transport.states.reset(target, SequenceMark(transport.states.new_id(), is_start=True), ())
    assert calls == ["ResetStates"] * 2
    calls.clear()
    with pytest.raises(ov.QueueFull, match="as many sequences"):
        transport.states.reset(target, SequenceMark(1, is_start=False), ())
    assert calls == ["ResetStates"], "one that is under way has its room"
    calls.clear()
    transport.states.release(1)
    transport.states.reset(target, SequenceMark(transport.states.new_id(), is_start=True), ())
    assert calls in (["ResetStates", "Release", "ResetStates"], ["Release", "ResetStates"])


def test_an_inference_whose_sequence_finds_no_room_is_sent_again_once_others_are_freed(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    released: SimpleQueue[bytes] = SimpleQueue()

    def release(data: bytes, context: grpc.ServicerContext) -> bytes:
        released.put(data)
        return b""

    server.unary["Release"] = release
    outcomes = Endings()
    header = ExecutionHeader(HEADER.target, HEADER.inputs, SequenceMark(transport.states.new_id(), is_start=True))
    transport.submit(header, [DATA], outcomes.take)
    transport.states.release(7)
    error = types_pb2.Error(code=types_pb2.ERROR_CODE_QUEUE_FULL, message="as many sequences as may be")
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=sent(server), error=error)]))
    again = sent(server)
    assert models_pb2.ReleaseRequest.FromString(released.get_nowait()).sequences == [7]
    assert len(server.hellos) == 1
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=again, error=error)]))
    assert isinstance(outcomes.get(timeout=LIMIT_S).error, ov.QueueFull), "it is sent again only once"


def test_what_finds_no_room_where_nothing_can_be_freed_begins_in_another_session(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    """As where calls beside the stream have come to another server than the one that the stream is open to."""
    asked: list[str] = []

    def release(data: bytes, context: grpc.ServicerContext) -> bytes:
        metadata: Any = context.invocation_metadata()
        asked.append(session := dict(metadata)["inferwire-session"])
        if session == "session-1":
            context.set_trailing_metadata(((CODE_METADATA, "SESSION_EXPIRED"),))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it is not open here")
        return b""

    server.unary["Release"] = release
    header = ExecutionHeader(HEADER.target, HEADER.inputs, SequenceMark(transport.states.new_id(), is_start=True))
    transport.submit(header, [DATA], Endings().take)
    refused = sent(server)
    transport.states.release(7)
    error = types_pb2.Error(code=types_pb2.ERROR_CODE_QUEUE_FULL, message="as many sequences as may be")
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=refused, error=error)]))
    assert len(sent(server)) == 1
    assert (len(server.hellos), asked[-1]) == (2, "session-2")


def releases_of(server: ScriptedServer) -> SimpleQueue[list[int]]:
    """Have the server note which tensors are freed."""
    freed: SimpleQueue[list[int]] = SimpleQueue()

    def release(data: bytes, context: grpc.ServicerContext) -> bytes:
        freed.put(list(models_pb2.ReleaseRequest.FromString(data).tensors))
        return b""

    server.unary["Release"] = release
    return freed


def test_what_is_released_while_the_connection_is_lost_is_freed_once_the_session_goes_on(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    freed = releases_of(server)
    submit(transport, Endings()).cancel()
    server.answers.put(None)
    wait_until(lambda: not transport.is_ready(HEADER))
    tensor = transport.tensors.new_id()
    transport.tensors.release(tensor)
    with pytest.raises(Empty):
        freed.get(timeout=0.1)
    submit(transport, Endings())
    assert server.hellos[-1].session_id == "session-1"
    assert freed.get(timeout=LIMIT_S) == [tensor]


def test_what_a_lost_connection_may_not_have_freed_is_freed_with_what_follows(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    freed = releases_of(server)
    release, tried = server.unary["Release"], SimpleQueue[None]()

    def lose(data: bytes, context: grpc.ServicerContext) -> bytes:
        server.unary["Release"] = release
        tried.put(None)
        context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        raise AssertionError

    server.unary["Release"] = lose
    submit(transport, Endings())
    tensors = [transport.tensors.new_id() for _ in range(2)]
    transport.tensors.release(tensors[0])
    tried.get(timeout=LIMIT_S)
    transport.tensors.release(tensors[1])
    seen: list[int] = []
    while len(seen) < 2:
        seen += freed.get(timeout=LIMIT_S)
    assert sorted(seen) == tensors
