"""A connection that is lost or closed: what goes on, on a new one, and what does not."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from queue import Empty
from typing import Any

import grpc
import numpy as np
import pytest
from tests.client.transport.endings import Ended, Endings
from tests.client.transport.scripted_server import DATA, HEADER, ScriptedServer, result, sent, submit, values_of
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.errors import AnswerLost
from inferwire.transport.address import parse_address
from inferwire.transport.descriptions import Blob, ModelContents, ModelSource
from inferwire.transport.executions import ExecutionHeader, SequenceMark, Target
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.timeouts import Timeouts
from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import models_pb2, states_pb2, types_pb2
from inferwire_proto.preprocessing import Recording

START = SequenceMark(1, is_start=True)
SOURCE = ModelSource(b"sha", b"", ".onnx", {}, {})
CONTENTS = ModelContents(SOURCE, (Blob(DATA, b"sha"),), lambda: pytest.fail("it is in memory"))


ABOUT_A_MODEL: dict[str, tuple[Any, Callable[[GrpcTransport, Target], object]]] = {
    "Export": (models_pb2.ExportRequest, lambda transport, target: transport.export(target)),
    "GetRuntimeModel": (
        models_pb2.GetRuntimeModelRequest,
        lambda transport, target: transport.runtime_model(target),
    ),
    "ListLayers": (models_pb2.ListLayersRequest, lambda transport, target: transport.layers(target)),
    "GetStates": (states_pb2.GetStatesRequest, lambda transport, target: transport.states.get(target, START, ())),
    "SetStates": (states_pb2.SetStatesRequest, lambda transport, target: transport.states.set(target, START, ())),
    "ResetStates": (states_pb2.ResetStatesRequest, lambda transport, target: transport.states.reset(target, START, ())),
}


def test_what_was_in_flight_as_the_stream_ended_is_sent_again_on_one_that_resumes_the_session(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    outcomes = Endings()
    submit(transport, outcomes)
    (first,) = server.received.get(timeout=LIMIT_S).executions
    server.answers.put(None)
    message = server.received.get(timeout=LIMIT_S)
    (second,) = message.executions
    assert list(message.raw) == [DATA]
    assert second.target == first.target
    server.answers.put(result(*second.ids))
    assert outcomes.get(timeout=LIMIT_S).error is None
    assert [hello.session_id for hello in server.hellos] == ["", "session-1"]


def test_it_is_sent_again_once_only(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes = Endings()
    submit(transport, outcomes)
    for _ in range(2):
        sent(server)
        server.answers.put(None)
    assert isinstance(outcomes.get(timeout=LIMIT_S).error, ov.ServerUnavailable)
    assert len(server.hellos) == 2


def test_what_piled_up_goes_out_as_a_stack_and_is_sent_again_as_one(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    header = ExecutionHeader(HEADER.target, HEADER.inputs, most_stacked=3)
    first, outcomes = Endings(), [Endings() for _ in range(6)]
    transport.submit(header, [DATA], first.take)
    sent(server)
    for number, queue in enumerate(outcomes):
        transport.submit(header, [np.array([number, -number], np.float32).tobytes()], queue.take)
    found = dict(stacked_inputs(server, 6))
    assert list(found.values()) == [[number, -number] for number in range(6)]
    # The connection is lost with all of them under way.
    server.answers.put(None)
    again = dict(stacked_inputs(server, 7))
    assert list(again.values()) == [[1, 2], *found.values()], "what has waited longest goes first"
    ids = list(again)
    server.answers.put(result(*ids, raw=np.array([again[id_] for id_ in ids], np.float32).tobytes()))
    answers = [values_of(each.get(timeout=LIMIT_S)) for each in outcomes]
    assert answers == [[number, -number] for number in range(6)]
    assert first.get(timeout=LIMIT_S).error is None


def stacked_inputs(server: ScriptedServer, number: int) -> Iterator[tuple[int, list[float]]]:
    """Read what so many executions got, by id, however they were stacked."""
    seen = 0
    while seen < number:
        message = server.received.get(timeout=LIMIT_S)
        assert len(message.raw) == len(message.executions)
        for execution, raw in zip(message.executions, message.raw, strict=True):
            assert len(execution.ids) <= 3
            values = np.frombuffer(raw, np.float32).reshape(len(execution.ids), 2).tolist()
            yield from zip(execution.ids, values, strict=True)
            seen += len(execution.ids)


def test_what_a_draining_server_refuses_goes_to_a_new_connection(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    outcomes = Endings()
    submit(transport, outcomes)
    error = types_pb2.Error(code=types_pb2.ERROR_CODE_SHUTTING_DOWN, message="draining")
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=sent(server), error=error)]))
    (again,) = sent(server)
    assert len(server.hellos) == 2
    assert answered_by_either(server, again, outcomes).error is None


def answered_by_either(server: ScriptedServer, id_: int, outcomes: Endings) -> Ended:
    """Answer until the stream that the execution is on, and not the one before it, has taken an answer."""
    for _ in range(10 * LIMIT_S):
        server.answers.put(result(id_))
        try:
            return outcomes.get(timeout=0.1)
        except Empty:
            continue
    raise AssertionError("no answer was taken")


def test_what_changes_states_is_not_sent_again(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes = Endings()
    header = ExecutionHeader(HEADER.target, HEADER.inputs, SequenceMark(1, is_start=True))
    transport.submit(header, [DATA], outcomes.take)
    sent(server)
    server.answers.put(None)
    assert isinstance(outcomes.get(timeout=LIMIT_S).error, ov.ServerUnavailable)
    assert len(server.hellos) == 1


def test_what_was_cancelled_is_not_sent_again(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes = Endings()
    submit(transport, outcomes).cancel()
    kept = Endings()
    submit(transport, kept)
    while 2 not in sent(server):
        pass
    server.answers.put(None)
    message = server.received.get(timeout=LIMIT_S)
    while not message.executions:
        message = server.received.get(timeout=LIMIT_S)
    assert len(message.executions) == 1
    server.answers.put(result(*message.executions[0].ids))
    assert kept.get(timeout=LIMIT_S).error is None
    assert outcomes.empty()


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

    server.unary |= {"Compile": compile_, method: answer}
    description = transport.compile(ModelContents(SOURCE, (), tuple), "CPU", {})
    call(transport, Target(description.compiled_id, is_served=False))
    assert named == ["compiled-1", "compiled-2"]


def test_what_needs_a_model_that_the_session_cannot_be_given_any_more_goes_to_a_new_session(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    """As where calls beside the stream have come to another server than the one that the stream is open to."""
    asked: list[str] = []

    def compile_(data: bytes, context: grpc.ServicerContext) -> bytes:
        metadata: Any = context.invocation_metadata()
        asked.append(dict(metadata)["inferwire-session"])
        if asked[-1] == "session-2":
            context.set_trailing_metadata(((CODE_METADATA, Code.SESSION_EXPIRED.name),))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "session 'session-2' is not open here")
        return models_pb2.CompileResponse(compiled_id=f"of {asked[-1]}").SerializeToString()

    server.unary["Compile"] = compile_
    description = transport.compile(ModelContents(SOURCE, (), tuple), "CPU", {})
    served, outcomes = Endings(), Endings()
    submit(transport, served)
    sent(server)
    server.answers.put(None)
    server.answers.put(result(*sent(server)))
    assert served.get(timeout=LIMIT_S).error is None
    transport.submit(ExecutionHeader(Target(description.compiled_id, is_served=False), ()), (), outcomes.take)
    (execution,) = server.received.get(timeout=LIMIT_S).executions
    assert execution.target.compiled == "of session-3"
    assert asked == ["session-1", "session-2", "session-3"]


OF_FILES: dict[str, Callable[[GrpcTransport], object]] = {
    "Read": lambda transport: transport.read(CONTENTS),
    "ListNodes": lambda transport: transport.graph(CONTENTS),
    "DescribePreprocessing": lambda transport: transport.describe_preprocessing(CONTENTS, Recording(())),
    "Query": lambda transport: transport.query(CONTENTS, "CPU", {}),
    "Compile": lambda transport: transport.compile(CONTENTS, "CPU", {}),
    "Import": lambda transport: transport.import_compiled(Blob(DATA, b"sha"), "CPU", {}),
}


@pytest.mark.parametrize(("method", "use"), OF_FILES.items(), ids=OF_FILES)
def test_files_are_uploaded_again_where_their_session_is_lost_before_they_are_used(
    server: ScriptedServer, transport: GrpcTransport, method: str, use: Callable[[GrpcTransport], object]
) -> None:
    have: set[str] = set()
    used: list[str] = []

    def session_of(context: grpc.ServicerContext) -> str:
        metadata: Any = context.invocation_metadata()
        return dict(metadata)["inferwire-session"]

    def upload(data: bytes, context: grpc.ServicerContext) -> bytes:
        have.add(session_of(context))
        return b""

    def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
        used.append(session := session_of(context))
        if session == "session-1":
            context.abort(grpc.StatusCode.UNAVAILABLE, "the server restarts")
        if session not in have:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the blob is not uploaded in this session")
        return b""

    server.unary |= {"Upload": upload, method: answer}
    use(transport)
    assert used == ["session-1", "session-2"]


def test_what_is_in_flight_ends_as_the_connection_is_closed_here(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    outcomes = Endings()
    submit(transport, outcomes)
    sent(server)
    transport.close()
    error = outcomes.get(timeout=LIMIT_S).error
    assert isinstance(error, ov.Cancelled)
    assert "was closed here" in str(error)
    assert len(server.hellos) == 1, "it is not begun anew"


@pytest.mark.parametrize("method", ["GetStates", "SetStates", "ResetStates"])
def test_a_call_about_states_says_whether_it_may_have_been_done(
    server: ScriptedServer, transport: GrpcTransport, method: str
) -> None:
    def fail(data: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is lost")
        raise AssertionError

    server.unary[method] = fail
    call, target = ABOUT_A_MODEL[method][1], Target("m", is_served=True)
    with pytest.raises(AnswerLost, match="the connection is lost"):
        call(transport, target)


def test_a_call_about_states_that_no_server_has_heard_of_says_so() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    transport = GrpcTransport(parse_address(f"127.0.0.1:{port}"), Timeouts(LIMIT_S))
    with pytest.raises(ov.ServerUnavailable) as caught:
        transport.states.set(Target("m", is_served=True), START, ())
    assert not isinstance(caught.value, AnswerLost)
