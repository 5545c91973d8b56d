"""Executions on a session's stream, one by one or stacked, and each's own answer."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from time import perf_counter

import grpc
import numpy as np
import pytest
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import (
    DATA,
    HEADER,
    ScriptedServer,
    content,
    delivering_badly,
    result,
    sent,
    submit,
)
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.address import parse_address
from inferwire.transport.descriptions import Blob, CompiledDescription, ModelContents, ModelSource
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.session.carriers import GrpcCarrier
from inferwire.transport.session.session_stream import SessionStream
from inferwire.transport.session.stream_execution import EncodedHeader, StreamExecution
from inferwire.transport.timeouts import Timeouts
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import models_pb2, types_pb2


def test_an_execution_goes_out_and_its_outputs_come_back(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes = Endings()
    submit(transport, outcomes)
    message = server.received.get(timeout=LIMIT_S)
    begun = perf_counter()
    (execution,) = message.executions
    assert execution.target.served == "m"
    assert execution.target.signature == 7
    assert list(execution.inputs[0].shape) == [2]
    assert list(message.raw) == [DATA]
    server.answers.put(result(*execution.ids))
    outcome = outcomes.get(timeout=LIMIT_S)
    assert content(outcome) == DATA
    assert outcome.outcome.forms[0].shape == (2,)
    assert outcome.outcome.timings.inference_ms == 2.0
    assert begun < outcome.outcome.came_at < perf_counter()


def test_a_stack_of_results_is_cut_into_those_of_each(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes = [Endings(), Endings()]
    for queue in outcomes:
        submit(transport, queue)
    ids = sent(server, 2)
    server.answers.put(result(*ids, raw=np.array([1, 2, 3, 4], np.float32).tobytes()))
    values = [np.frombuffer(content(each.get(timeout=LIMIT_S)), np.float32).tolist() for each in outcomes]
    assert values == [[1, 2], [3, 4]]


def test_an_error_of_one_execution_is_its_own(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes = [Endings(), Endings()]
    for queue in outcomes:
        submit(transport, queue)
    ids = sent(server, 2)
    error = types_pb2.Error(code=types_pb2.ERROR_CODE_QUEUE_FULL, message="full", retry_after_s=0.5)
    server.answers.put(pb.SessionResponse(results=[pb.ExecutionResult(ids=ids[:1], error=error)]))
    server.answers.put(result(ids[1]))
    refused = outcomes[0].get(timeout=LIMIT_S).error
    assert isinstance(refused, ov.QueueFull)
    assert refused.retry_after_s == 0.5
    assert outcomes[1].get(timeout=LIMIT_S).error is None


def test_a_cancel_reaches_the_server_and_its_answer_nobody(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes = Endings()
    execution = submit(transport, outcomes)
    ids = sent(server)
    execution.cancel()
    execution.cancel()
    assert list(server.received.get(timeout=LIMIT_S).cancels) == ids
    server.answers.put(result(*ids))
    after = Endings()
    submit(transport, after)
    server.answers.put(result(*sent(server)))
    after.get(timeout=LIMIT_S)
    assert outcomes.empty()


def test_an_answer_that_cannot_be_taken_ends_its_execution_and_no_other(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    bad, good = Endings(), Endings()
    transport.submit(HEADER, [DATA], delivering_badly(bad))
    submit(transport, good)
    for id_ in sent(server, 2):
        server.answers.put(result(id_))
    error = bad.get(timeout=LIMIT_S).error
    assert str(error) == "the answer came and could not be taken: MemoryError('no room for it')"
    assert content(good.get(timeout=LIMIT_S)) == DATA
    assert len(server.hellos) == 1


def test_an_answer_that_cannot_be_read_ends_the_session(server: ScriptedServer, transport: GrpcTransport) -> None:
    outcomes = Endings()
    submit(transport, outcomes)
    bad = result(*sent(server))
    bad.results[0].outputs[0].element_type = types_pb2.ElementType.ValueType(99)
    server.answers.put(bad)
    assert isinstance(outcomes.get(timeout=LIMIT_S).error, ov.InferwireError)


@pytest.mark.parametrize(
    "of_none", [result(), pb.SessionResponse(results=[pb.ExecutionResult(error=types_pb2.Error())])]
)
def test_an_answer_to_no_execution_ends_the_session(
    server: ScriptedServer, transport: GrpcTransport, of_none: pb.SessionResponse
) -> None:
    outcomes = Endings()
    submit(transport, outcomes)
    sent(server)
    server.answers.put(of_none)
    error = outcomes.get(timeout=LIMIT_S).error
    assert isinstance(error, ov.InferwireError)
    assert "a result names no execution" in str(error)


def test_what_is_submitted_to_a_stream_that_has_ended_fails_as_the_stream_did(server: ScriptedServer) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stream = SessionStream(GrpcCarrier(channel, "server", ()), "server", pb.SessionHello(), LIMIT_S)
        stream.close(LIMIT_S)
        assert not stream.is_open
        outcomes = Endings()
        stream.submit(StreamExecution([DATA], outcomes.take), EncodedHeader(b""), len(DATA))
        # The server may have ended it first, once it heard that nothing follows.
        assert isinstance(outcomes.get_nowait().error, ov.Cancelled | ov.ServerUnavailable)


def test_a_transport_that_nobody_holds_ends_its_stream_without_the_garbage_collector(server: ScriptedServer) -> None:
    outcomes = Endings()
    transport = GrpcTransport(parse_address(f"127.0.0.1:{server.port}"), Timeouts(LIMIT_S))
    submit(transport, outcomes)
    server.answers.put(result(*sent(server)))
    outcomes.get(timeout=LIMIT_S)
    gone = weakref.ref(transport)
    gc.disable()
    try:
        del transport
        assert gone() is None
        assert server.ended.get(timeout=LIMIT_S) == "session-1"
    finally:
        gc.enable()


MAKE: dict[str, Callable[[GrpcTransport], CompiledDescription]] = {
    "Compile": lambda transport: transport.compile(
        ModelContents(ModelSource(b"sha", b"", ".onnx", {}, {}), (), tuple), "CPU", {}
    ),
    "Import": lambda transport: transport.import_compiled(Blob(DATA, b"sha"), "CPU", {}),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_a_transport_that_nobody_holds_goes_though_its_models_were_not_freed_before_it_was_closed(
    server: ScriptedServer, make: Callable[[GrpcTransport], CompiledDescription]
) -> None:
    def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
        return models_pb2.CompileResponse(compiled_id="m").SerializeToString()

    server.unary |= dict.fromkeys(MAKE, answer)
    server.unary["Upload"] = lambda data, context: b""
    transport = GrpcTransport(parse_address(f"127.0.0.1:{server.port}"), Timeouts(LIMIT_S))
    compiled = make(transport)
    transport.close()
    transport.release(compiled.compiled_id)
    gone, releasing = weakref.ref(transport), transport._releases._thread
    connection_gone = threading.Event()
    weakref.finalize(transport._connection, connection_gone.set)
    gc.disable()
    try:
        del transport
        assert gone() is None
        assert releasing is not None
        releasing.join(LIMIT_S)
        assert not releasing.is_alive()
        # The thread that was opening it may have it for a moment yet.
        assert connection_gone.wait(LIMIT_S)
    finally:
        gc.enable()
