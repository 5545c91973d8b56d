"""Calls travel beside the stream: none that could be undone by a cancelled execution comes before that has ended."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue

import grpc
import pytest
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import DATA, F32, ScriptedServer, result, sent, submit
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

from inferwire.transport.executions import SequenceMark, StoredBox, Target
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire_proto.inferwire.v1 import inference_pb2 as pb

TARGET, SEQUENCE = Target("m", is_served=True), SequenceMark(1, is_start=False)

CALLS: dict[str, Callable[[GrpcTransport], object]] = {
    "ResetStates": lambda transport: transport.states.reset(TARGET, SEQUENCE, ()),
    "GetStates": lambda transport: transport.states.get(TARGET, SEQUENCE, ()),
    "SetStates": lambda transport: transport.states.set(TARGET, SEQUENCE, ()),
    "PutTensor": lambda transport: transport.tensors.put(StoredBox(1), F32, (2,), DATA),
    "Release": lambda transport: transport.tensors.release(transport.tensors.new_id()),
}


def noted(server: ScriptedServer) -> SimpleQueue[str]:
    """Have the server note which of these calls come."""
    came: SimpleQueue[str] = SimpleQueue()

    def noting(method: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def note(data: bytes, context: grpc.ServicerContext) -> bytes:
            came.put(method)
            return b""

        return note

    server.unary |= {method: noting(method) for method in CALLS}
    return came


@pytest.mark.parametrize("method", CALLS)
def test_a_call_comes_behind_what_was_cancelled(method: str, server: ScriptedServer, transport: GrpcTransport) -> None:
    came = noted(server)
    cancelled = submit(transport, Endings())
    ids = sent(server)
    cancelled.cancel()
    with DaemonThreads() as pool:
        called = pool.submit(CALLS[method], transport)
        with pytest.raises(Empty):
            came.get(timeout=0.2)
        server.answers.put(result(*ids))
        assert came.get(timeout=LIMIT_S) == method
        called.result(LIMIT_S)


def test_a_call_comes_behind_what_was_cancelled_by_two(server: ScriptedServer, transport: GrpcTransport) -> None:
    """Whoever sends an execution cancels it as well, where somebody else has done so meanwhile."""
    came = noted(server)
    cancelled = submit(transport, Endings())
    ids = sent(server)
    cancelled.cancel()
    cancelled.cancel()
    with DaemonThreads() as pool:
        called = pool.submit(CALLS["ResetStates"], transport)
        with pytest.raises(Empty):
            came.get(timeout=0.2)
        server.answers.put(result(*ids))
        called.result(LIMIT_S)


def test_what_was_answered_before_it_was_cancelled_holds_up_nobody(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    came, outcomes = noted(server), Endings()
    execution = submit(transport, outcomes)
    server.answers.put(result(*sent(server)))
    outcomes.get(timeout=LIMIT_S)
    execution.cancel()
    CALLS["ResetStates"](transport)
    assert came.get(timeout=LIMIT_S) == "ResetStates"


def test_the_end_of_its_connection_is_the_end_of_what_was_cancelled(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    came = noted(server)
    cancelled = submit(transport, Endings())
    sent(server)
    cancelled.cancel()
    with DaemonThreads() as pool:
        called = pool.submit(CALLS["ResetStates"], transport)
        server.answers.put(None)
        called.result(LIMIT_S)
    assert came.get(timeout=LIMIT_S) == "ResetStates"


def test_what_others_wait_for_holds_up_nobody(server: ScriptedServer, transport: GrpcTransport) -> None:
    came, outcomes = noted(server), Endings()
    submit(transport, outcomes)
    ids = sent(server)
    CALLS["ResetStates"](transport)
    assert came.get(timeout=LIMIT_S) == "ResetStates"
    server.answers.put(pb.SessionResponse(results=result(*ids).results, raw=[DATA]))
    assert outcomes.get(timeout=LIMIT_S).error is None


def test_a_call_about_no_states_waits_for_nothing(server: ScriptedServer, transport: GrpcTransport) -> None:
    came: SimpleQueue[bytes] = SimpleQueue()

    def note(data: bytes, context: grpc.ServicerContext) -> bytes:
        came.put(data)
        return b""

    server.unary["ListLayers"] = note
    cancelled = submit(transport, Endings())
    ids = sent(server)
    cancelled.cancel()
    with DaemonThreads() as pool:
        pool.submit(transport.layers, TARGET)
        try:
            came.get(timeout=LIMIT_S)
        finally:
            server.answers.put(result(*ids))
