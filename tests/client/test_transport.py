"""The gRPC transport against a scripted server on a real socket."""

from __future__ import annotations

import gc
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

import grpc
import numpy as np
import pytest
from tests.client.scripted_server import (
    DATA,
    F32,
    HEADER,
    TIMEOUT_S,
    ScriptedServer,
    content,
    result,
    sent,
    submit,
    values_of,
)

import inferwire as ov
from inferwire.transport import rpc
from inferwire.transport.address import parse_address
from inferwire.transport.carriers import GrpcCarrier
from inferwire.transport.connection import Patience
from inferwire.transport.descriptions import ModelSource
from inferwire.transport.executions import ExecutionHeader, Outcome, SequenceMark, StoredBox, Target
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.large_execution import LargeExecution
from inferwire.transport.session_stream import LARGE_BYTES, SessionStream
from inferwire.transport.stream_execution import EncodedHeader, StreamExecution
from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import models_pb2, states_pb2, types_pb2


@pytest.fixture(params=["gRPC", "socket"])
def server(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    server = ScriptedServer(on_socket=request.param == "socket")
    yield server
    server.stop()


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[GrpcTransport]:
    transport = GrpcTransport(parse_address(f"127.0.0.1:{server.port}"), Patience(TIMEOUT_S))
    yield transport
    transport.close()


def test_an_execution_goes_out_and_its_outputs_come_back(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, outcomes)
    message = server.received.get(timeout=TIMEOUT_S)
    (execution,) = message.executions
    assert execution.target.served == "m"
    assert execution.target.signature == 7
    assert list(execution.inputs[0].shape) == [2]
    assert list(message.raw) == [DATA]
    server.answers.put(result(*execution.ids))
    outcome = outcomes.get(timeout=TIMEOUT_S)
    assert content(outcome) == DATA
    assert outcome.forms[0].shape == (2,)
    assert outcome.timings.inference_ms == 2.0
    assert outcome.timings.wire_ms >= 0


def test_a_stack_of_results_is_cut_into_those_of_each(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes: list[SimpleQueue[Outcome]] = [SimpleQueue(), SimpleQueue()]
    for queue in outcomes:
        submit(transport, queue)
    ids = sent(server, 2)
    server.answers.put(result(*ids, raw=np.array([1, 2, 3, 4], np.float32).tobytes()))
    values = [np.frombuffer(content(each.get(timeout=TIMEOUT_S)), np.float32).tolist() for each in outcomes]
    assert values == [[1, 2], [3, 4]]


def test_a_transport_that_nobody_holds_ends_its_stream_without_the_garbage_collector(server: ScriptedServer) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    transport = GrpcTransport(parse_address(f"127.0.0.1:{server.port}"), Patience(TIMEOUT_S))
    submit(transport, outcomes)
    server.answers.put(result(*sent(server)))
    outcomes.get(timeout=TIMEOUT_S)
    gone = weakref.ref(transport)
    gc.disable()
    try:
        del transport
        assert gone() is None
        assert server.ended.get(timeout=TIMEOUT_S) == "session-1"
    finally:
        gc.enable()


def test_what_piled_up_goes_out_as_a_stack_and_is_sent_again_as_one(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    header = ExecutionHeader(HEADER.target, HEADER.inputs, most_stacked=3)
    first, outcomes = SimpleQueue[Outcome](), [SimpleQueue[Outcome]() for _ in range(6)]
    transport.submit(header, [DATA], first.put)
    sent(server)
    for number, queue in enumerate(outcomes):
        transport.submit(header, [np.array([number, -number], np.float32).tobytes()], queue.put)
    found = dict(stacked_inputs(server, 6))
    assert sorted(found.values()) == [[number, -number] for number in range(6)]
    # The connection is lost with all of them under way.
    server.answers.put(None)
    again = dict(stacked_inputs(server, 7))
    assert sorted(again.values()) == sorted([[1, 2], *found.values()])
    ids = list(again)
    server.answers.put(result(*ids, raw=np.array([again[id_] for id_ in ids], np.float32).tobytes()))
    answers = [values_of(each.get(timeout=TIMEOUT_S)) for each in outcomes]
    assert answers == [[number, -number] for number in range(6)]
    assert first.get(timeout=TIMEOUT_S).error is None


def stacked_inputs(server: ScriptedServer, number: int) -> Iterator[tuple[int, list[float]]]:
    """Read what so many executions got, by id, however they were stacked."""
    seen = 0
    while seen < number:
        message = server.received.get(timeout=TIMEOUT_S)
        assert len(message.raw) == len(message.executions)
        for execution, raw in zip(message.executions, message.raw, strict=True):
            assert len(execution.ids) <= 3
            values = np.frombuffer(raw, np.float32).reshape(len(execution.ids), 2).tolist()
            yield from zip(execution.ids, values, strict=True)
            seen += len(execution.ids)


def test_an_error_of_one_execution_is_its_own(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes: list[SimpleQueue[Outcome]] = [SimpleQueue(), SimpleQueue()]
    for queue in outcomes:
        submit(transport, queue)
    ids = sent(server, 2)
    error = types_pb2.Error(code=types_pb2.ERROR_CODE_QUEUE_FULL, message="full", retry_after_s=0.5)
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=ids[:1], error=error)]))
    server.answers.put(result(ids[1]))
    refused = outcomes[0].get(timeout=TIMEOUT_S).error
    assert isinstance(refused, ov.QueueFull)
    assert refused.retry_after_s == 0.5
    assert outcomes[1].get(timeout=TIMEOUT_S).error is None


def test_a_cancel_reaches_the_server_and_its_answer_nobody(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    execution = submit(transport, outcomes)
    ids = sent(server)
    execution.cancel()
    execution.cancel()
    assert list(server.received.get(timeout=TIMEOUT_S).cancels) == ids
    server.answers.put(result(*ids))
    after: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, after)
    server.answers.put(result(*sent(server)))
    after.get(timeout=TIMEOUT_S)
    assert outcomes.empty()


def test_what_was_in_flight_as_the_stream_ended_is_sent_again_on_one_that_resumes_the_session(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, outcomes)
    (first,) = server.received.get(timeout=TIMEOUT_S).executions
    server.answers.put(None)
    message = server.received.get(timeout=TIMEOUT_S)
    (second,) = message.executions
    assert list(message.raw) == [DATA]
    assert second.target == first.target
    server.answers.put(result(*second.ids))
    assert outcomes.get(timeout=TIMEOUT_S).error is None
    assert [hello.session_id for hello in server.hellos] == ["", "session-1"]


def test_it_is_sent_again_once_only(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, outcomes)
    for _ in range(2):
        sent(server)
        server.answers.put(None)
    assert isinstance(outcomes.get(timeout=TIMEOUT_S).error, ov.ServerUnavailable)
    assert len(server.hellos) == 2


def answered_by_either(server: ScriptedServer, id_: int, outcomes: SimpleQueue[Outcome]) -> Outcome:
    """Answer until the stream that the execution is on, and not the one before it, has taken an answer."""
    for _ in range(100):
        server.answers.put(result(id_))
        try:
            return outcomes.get(timeout=TIMEOUT_S / 100)
        except Empty:
            continue
    raise AssertionError("no answer was taken")


def test_what_a_draining_server_refuses_goes_to_a_new_connection(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, outcomes)
    error = types_pb2.Error(code=types_pb2.ERROR_CODE_SHUTTING_DOWN, message="draining")
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=sent(server), error=error)]))
    (again,) = sent(server)
    assert len(server.hellos) == 2
    assert answered_by_either(server, again, outcomes).error is None


def test_what_changes_states_is_not_sent_again(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    header = ExecutionHeader(HEADER.target, HEADER.inputs, SequenceMark(1, is_start=True))
    transport.submit(header, [DATA], outcomes.put)
    sent(server)
    server.answers.put(None)
    assert isinstance(outcomes.get(timeout=TIMEOUT_S).error, ov.ServerUnavailable)
    assert len(server.hellos) == 1


def test_what_was_cancelled_is_not_sent_again(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, outcomes).cancel()
    kept: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, kept)
    while 2 not in sent(server):
        pass
    server.answers.put(None)
    message = server.received.get(timeout=TIMEOUT_S)
    while not message.executions:
        message = server.received.get(timeout=TIMEOUT_S)
    assert len(message.executions) == 1
    server.answers.put(result(*message.executions[0].ids))
    assert kept.get(timeout=TIMEOUT_S).error is None
    assert outcomes.empty()


def test_the_servers_limit_is_kept(server: ScriptedServer, transport: GrpcTransport) -> None:
    server.most_bytes = 1000
    sizes: SimpleQueue[int] = SimpleQueue()

    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        sizes.put(len(request))
        return pb.InferResponse(result=result(0).results[0], raw=[DATA]).SerializeToString()

    server.unary["Infer"] = infer
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    with pytest.raises(ov.TooLarge, match=r"have 1001 bytes, at most 1000 fit.*--max-grpc-message-mb"):
        transport.submit(HEADER, [bytes(1001)], outcomes.put)
    transport.submit(HEADER, [bytes(500)], outcomes.put)
    assert outcomes.get(timeout=TIMEOUT_S).error is None
    assert sizes.get(timeout=TIMEOUT_S) > 500


def test_an_http_port_is_told_from_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        pool.submit(answer_as_http, listener)
        with pytest.raises(ov.ServerUnavailable, match=r"speaks HTTP/1\.1 and not gRPC.*8001"):
            ov.Core(f"127.0.0.1:{listener.getsockname()[1]}").served_model("m")


def answer_as_http(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        while connection.recv(1 << 16):
            pass


def test_no_server_is_said_in_one_sentence_that_names_the_command() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ov.ServerUnavailable, match=f"{address}; start one with `inferwire serve`") as caught:
            ov.Core(address).served_model("m")
    assert "\n" not in str(caught.value)


def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = parse_address(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ov.ServerUnavailable, match=r"no answer within 0\.05 s"):
            GrpcTransport(address, Patience(connect_s=0.05)).devices()


def test_the_code_in_the_metadata_makes_the_exception(server: ScriptedServer, transport: GrpcTransport) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((CODE_METADATA, "MODEL_NOT_FOUND"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "model 'm' is not served")

    server.unary["GetModel"] = refuse
    with pytest.raises(ov.ModelNotFound, match="model 'm' is not served"):
        transport.served_model("m", "")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, ov.ServerUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, ov.DeadlineExceeded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ov.TooLarge),
        (grpc.StatusCode.UNIMPLEMENTED, ov.Unimplemented),
        (grpc.StatusCode.CANCELLED, ov.Cancelled),
        (grpc.StatusCode.DATA_LOSS, ov.InferwireError),
    ],
)
def test_a_status_without_a_code_is_translated(
    server: ScriptedServer, transport: GrpcTransport, status: grpc.StatusCode, kind: type[Exception]
) -> None:
    server.unary["GetModel"] = lambda request, context: context.abort(status, "because")
    with pytest.raises(kind, match="because") as caught:
        transport.served_model("m", "")
    assert type(caught.value) is kind


def test_blobs_are_uploaded_once_in_chunks(server: ScriptedServer, transport: GrpcTransport) -> None:
    uploads: list[bytes] = []

    def has(request: bytes, context: grpc.ServicerContext) -> bytes:
        asked = models_pb2.HasBlobsRequest.FromString(request).sha256
        return models_pb2.HasBlobsResponse(present=[sha == b"b" * 32 for sha in asked]).SerializeToString()

    def upload(request: bytes, context: grpc.ServicerContext) -> bytes:
        uploads.append(request)
        return b""

    server.unary.update(HasBlobs=has, Upload=upload)
    content = bytes(range(256)) * 5000
    transport.upload({b"a" * 32: content, b"b" * 32: b"there already"})
    (upload_,) = uploads
    assert models_pb2.UploadRequest.FromString(upload_).header.byte_size == len(content)
    assert len(upload_) > len(content)


def test_a_large_execution_goes_as_a_call_of_its_own(server: ScriptedServer, transport: GrpcTransport) -> None:
    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        (raw,) = pb.InferRequest.FromString(request).raw
        answered = result(0).results[0]
        return pb.InferResponse(result=answered, raw=[raw[:8]]).SerializeToString()

    server.unary["Infer"] = infer
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    transport.submit(HEADER, [DATA + bytes(LARGE_BYTES)], outcomes.put)
    assert content(outcomes.get(timeout=TIMEOUT_S)) == DATA


def test_a_large_execution_that_fails_says_why(server: ScriptedServer, transport: GrpcTransport) -> None:
    server.unary["Infer"] = lambda request, context: context.abort(grpc.StatusCode.CANCELLED, "drained")
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    transport.submit(HEADER, [bytes(LARGE_BYTES)], outcomes.put)
    assert isinstance(outcomes.get(timeout=TIMEOUT_S).error, ov.Cancelled)


def test_a_large_execution_that_is_cancelled_is_cancelled_on_the_server(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    started, ended = threading.Event(), threading.Event()

    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        del request
        context.add_callback(ended.set)
        started.set()
        ended.wait(TIMEOUT_S)
        return b""

    server.unary["Infer"] = infer
    execution = transport.submit(HEADER, [bytes(LARGE_BYTES)], fail_if_called)
    assert started.wait(TIMEOUT_S)
    execution.cancel()
    assert ended.wait(TIMEOUT_S)


def delivering_badly(outcomes: SimpleQueue[Outcome]) -> Callable[[Outcome], None]:
    """Take errors alone: an answer finds no memory."""

    def deliver(outcome: Outcome) -> None:
        if outcome.error is None:
            raise MemoryError("no room for it")
        outcomes.put(outcome)

    return deliver


def test_an_answer_that_cannot_be_taken_ends_its_execution_and_no_other(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    bad, good = SimpleQueue[Outcome](), SimpleQueue[Outcome]()
    transport.submit(HEADER, [DATA], delivering_badly(bad))
    submit(transport, good)
    for id_ in sent(server, 2):
        server.answers.put(result(id_))
    error = bad.get(timeout=TIMEOUT_S).error
    assert str(error) == "the answer came and could not be taken: MemoryError('no room for it')"
    assert content(good.get(timeout=TIMEOUT_S)) == DATA
    assert len(server.hellos) == 1


def test_a_large_answer_that_cannot_be_taken_ends_its_execution(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    server.unary["Infer"] = lambda data, context: pb.InferResponse(
        result=pb.ExecutionResult(ids=[0])
    ).SerializeToString()
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    transport.submit(HEADER, [bytes(LARGE_BYTES)], delivering_badly(outcomes))
    error = outcomes.get(timeout=TIMEOUT_S).error
    assert str(error) == "the answer came and could not be taken: MemoryError('no room for it')"


def fail_if_called(outcome: Outcome) -> None:
    raise AssertionError(f"nobody wants {outcome}")


def test_what_is_submitted_to_a_stream_that_has_ended_fails_as_the_stream_did(server: ScriptedServer) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stream = SessionStream(GrpcCarrier(channel, "server", ()), "server", pb.SessionHello(), TIMEOUT_S)
        stream.close(TIMEOUT_S)
        assert not stream.is_open
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        stream.submit(StreamExecution([DATA], outcomes.put), EncodedHeader(b""), len(DATA))
        # The server may have ended it first, once it heard that nothing follows.
        assert isinstance(outcomes.get_nowait().error, ov.Cancelled | ov.ServerUnavailable)


def test_an_answer_that_cannot_be_read_ends_the_session(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, outcomes)
    bad = result(*sent(server))
    bad.results[0].outputs[0].element_type = types_pb2.ElementType.ValueType(99)
    server.answers.put(bad)
    assert isinstance(outcomes.get(timeout=TIMEOUT_S).error, ov.InferwireError)


@pytest.mark.parametrize(
    "of_none", [result(), pb.SessionResponse(results=[pb.ExecutionResult(error=types_pb2.Error())])]
)
def test_an_answer_to_no_execution_ends_the_session(
    server: ScriptedServer, transport: GrpcTransport, of_none: pb.SessionResponse
) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, outcomes)
    sent(server)
    server.answers.put(of_none)
    error = outcomes.get(timeout=TIMEOUT_S).error
    assert isinstance(error, ov.InferwireError)
    assert "a result names no execution" in str(error)


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
    source = ModelSource(b"sha", b"", ".onnx", {}, {})
    actions = {
        "Compile": lambda: transport.compile(source, "CPU", {}, dict),
        "Import": lambda: transport.import_compiled(b"sha", "CPU", {}, dict),
    }
    submit(transport, SimpleQueue())
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


def test_an_id_for_a_sequence_is_had_without_a_call(server: ScriptedServer, transport: GrpcTransport) -> None:
    is_open = threading.Event()
    waited: SimpleQueue[bool] = SimpleQueue()

    def release(data: bytes, context: grpc.ServicerContext) -> bytes:
        waited.put(is_open.wait(TIMEOUT_S))
        return b""

    server.unary["Release"] = release
    submit(transport, SimpleQueue())
    transport.tensors.release(transport.tensors.new_id())
    assert transport.open_sequence() == 1
    is_open.set()
    assert waited.get(timeout=TIMEOUT_S), "the server had not answered yet"


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
        transport.reset_states(target, SequenceMark(transport.open_sequence(), is_start=True), ())
    assert calls == ["ResetStates"] * 2
    calls.clear()
    with pytest.raises(ov.QueueFull, match="as many sequences"):
        transport.reset_states(target, SequenceMark(1, is_start=False), ())
    assert calls == ["ResetStates"], "one that is under way has its room"
    calls.clear()
    transport.release_sequence(1)
    transport.reset_states(target, SequenceMark(transport.open_sequence(), is_start=True), ())
    assert calls in (["ResetStates", "Release", "ResetStates"], ["Release", "ResetStates"])


def test_an_inference_whose_sequence_finds_no_room_is_sent_again_once_others_are_freed(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    released: SimpleQueue[bytes] = SimpleQueue()

    def release(data: bytes, context: grpc.ServicerContext) -> bytes:
        released.put(data)
        return b""

    server.unary["Release"] = release
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    header = ExecutionHeader(HEADER.target, HEADER.inputs, SequenceMark(transport.open_sequence(), is_start=True))
    transport.submit(header, [DATA], outcomes.put)
    transport.release_sequence(7)
    error = types_pb2.Error(code=types_pb2.ERROR_CODE_QUEUE_FULL, message="as many sequences as may be")
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=sent(server), error=error)]))
    again = sent(server)
    assert models_pb2.ReleaseRequest.FromString(released.get_nowait()).sequences == [7]
    assert len(server.hellos) == 1
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=again, error=error)]))
    assert isinstance(outcomes.get(timeout=TIMEOUT_S).error, ov.QueueFull), "it is sent again only once"


def make(transport: GrpcTransport, name: str) -> None:
    if name == "CreateTensor":
        transport.tensors.create(transport.tensors.new_id(), F32, (2,))
    else:
        transport.tensors.put(StoredBox(1), F32, (2,), DATA)


START = SequenceMark(1, is_start=True)
ABOUT_A_MODEL: dict[str, tuple[Any, Callable[[GrpcTransport, Target], object]]] = {
    "Export": (models_pb2.ExportRequest, lambda transport, target: transport.export(target)),
    "GetRuntimeModel": (
        models_pb2.GetRuntimeModelRequest,
        lambda transport, target: transport.runtime_model(target),
    ),
    "ListLayers": (models_pb2.ListLayersRequest, lambda transport, target: transport.layers(target)),
    "GetStates": (states_pb2.GetStatesRequest, lambda transport, target: transport.get_states(target, START, ())),
    "SetStates": (states_pb2.SetStatesRequest, lambda transport, target: transport.set_states(target, START, ())),
    "ResetStates": (states_pb2.ResetStatesRequest, lambda transport, target: transport.reset_states(target, START, ())),
}


@pytest.mark.parametrize(("method", "request_type", "call"), [(name, *how) for name, how in ABOUT_A_MODEL.items()])
def test_what_is_asked_about_a_model_finds_it_in_a_new_session(
    server: ScriptedServer, transport: GrpcTransport, method: str, request_type: Any, call: Callable[..., object]
) -> None:
    """It is made again there, and has another name."""
    compiled = count(1)
    named: list[str] = []

    def compile_(data: bytes, context: grpc.ServicerContext) -> bytes:
        return models_pb2.CompileResponse(compiled_id=f"compiled-{next(compiled)}").SerializeToString()

    def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
        named.append(request_type.FromString(data).target.compiled)
        if len(named) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the server restarts")
        return b""

    server.unary |= {"Compile": compile_, "HasBlobs": lambda data, context: b"", method: answer}
    description = transport.compile(ModelSource(b"sha", b"", ".onnx", {}, {}), "CPU", {}, dict)
    call(transport, Target(description.compiled_id, is_served=False))
    assert named == ["compiled-1", "compiled-2"]


def until(holds: Callable[[], bool]) -> None:
    """Wait for what nobody tells."""
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


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
    submit(transport, SimpleQueue()).cancel()
    server.answers.put(None)
    until(lambda: not transport.is_ready(HEADER))
    tensor = transport.tensors.new_id()
    transport.tensors.release(tensor)
    with pytest.raises(Empty):
        freed.get(timeout=0.1)
    submit(transport, SimpleQueue())
    assert server.hellos[-1].session_id == "session-1"
    assert freed.get(timeout=TIMEOUT_S) == [tensor]


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
    submit(transport, SimpleQueue())
    tensors = [transport.tensors.new_id() for _ in range(2)]
    transport.tensors.release(tensors[0])
    tried.get(timeout=TIMEOUT_S)
    transport.tensors.release(tensors[1])
    seen: list[int] = []
    while len(seen) < 2:
        seen += freed.get(timeout=TIMEOUT_S)
    assert sorted(seen) == tensors


def test_what_is_in_flight_ends_as_the_connection_is_closed_here(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    submit(transport, outcomes)
    sent(server)
    transport.close()
    error = outcomes.get(timeout=TIMEOUT_S).error
    assert isinstance(error, ov.Cancelled)
    assert "was closed here" in str(error)
    assert len(server.hellos) == 1, "it is not begun anew"


def test_calls_of_every_kind_on_a_channel_that_was_closed_meanwhile_raise_the_clients_own_error(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    with closing(grpc.insecure_channel(f"127.0.0.1:{server.port}")) as channel:
        pass
    with pytest.raises(ov.ServerUnavailable, match="Cannot invoke RPC"):
        LargeExecution(channel, "here", (), SimpleQueue().put).start(b"", [DATA])
    with pytest.raises(ov.ServerUnavailable, match="Cannot invoke RPC"), rpc.as_own_errors("here"):
        rpc.call_with_stream(channel, "ModelService.Upload", (), models_pb2.UploadResponse, ())
