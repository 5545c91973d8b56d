"""Executions too large for the stream: each a call of its own."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import cast

import grpc
import pytest
from tests.client.transport.endings import Endings, fail_if_called
from tests.client.transport.scripted_server import (
    DATA,
    HEADER,
    ScriptedServer,
    content,
    delivering_badly,
    methods_of,
    result,
)
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.large_execution import LargeExecution
from inferwire.transport.rpc import UnaryFuture
from inferwire.transport.session.session_stream import LARGE_BYTES
from inferwire_proto.errors import CODE_METADATA, RETRY_AFTER_METADATA
from inferwire_proto.inferwire.v1 import inference_pb2 as pb


def test_a_large_execution_goes_as_a_call_of_its_own(server: ScriptedServer, transport: GrpcTransport) -> None:
    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        (raw,) = pb.InferRequest.FromString(request).raw
        answered = result(0).results[0]
        return pb.InferResponse(result=answered, raw=[raw[:8]]).SerializeToString()

    server.unary["Infer"] = infer
    outcomes = Endings()
    transport.submit(HEADER, [DATA + bytes(LARGE_BYTES)], outcomes.take)
    assert content(outcomes.get(timeout=LIMIT_S)) == DATA


def test_the_servers_limit_is_kept(server: ScriptedServer, transport: GrpcTransport) -> None:
    server.most_bytes = 1000
    sizes: SimpleQueue[int] = SimpleQueue()

    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        sizes.put(len(request))
        return pb.InferResponse(result=result(0).results[0], raw=[DATA]).SerializeToString()

    server.unary["Infer"] = infer
    outcomes = Endings()
    with pytest.raises(ov.TooLarge, match=r"have 1001 bytes, at most 1000 fit.*--max-grpc-message-mb"):
        transport.submit(HEADER, [bytes(1001)], outcomes.take)
    transport.submit(HEADER, [bytes(500)], outcomes.take)
    assert outcomes.get(timeout=LIMIT_S).error is None
    assert sizes.get(timeout=LIMIT_S) > 500


def test_a_large_execution_that_fails_says_why(server: ScriptedServer, transport: GrpcTransport) -> None:
    server.unary["Infer"] = lambda request, context: context.abort(grpc.StatusCode.DATA_LOSS, "it is broken")
    outcomes = Endings()
    transport.submit(HEADER, [bytes(LARGE_BYTES)], outcomes.take)
    assert str(outcomes.get(timeout=LIMIT_S).error).endswith("answered DATA_LOSS: it is broken")


def test_a_large_execution_that_the_server_cancels_is_cancelled(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    def cancel(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((CODE_METADATA, "CANCELLED"),))
        context.abort(grpc.StatusCode.CANCELLED, "the job was cancelled")

    server.unary["Infer"] = cancel
    outcomes = Endings()
    transport.submit(HEADER, [bytes(LARGE_BYTES)], outcomes.take)
    error = outcomes.get(timeout=LIMIT_S).error
    assert (type(error), str(error)) == (ov.Cancelled, "the job was cancelled")
    assert methods_of(server).count("Infer") == 1


def test_a_large_execution_that_a_proxy_gives_up_is_sent_again_as_a_small_one_is(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    gives_up = [True]

    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        if gives_up:
            gives_up.clear()
            context.abort(grpc.StatusCode.CANCELLED, "RST_STREAM with error code 8")
        return pb.InferResponse(result=result(0).results[0], raw=[DATA]).SerializeToString()

    server.unary["Infer"] = infer
    outcomes = Endings()
    transport.submit(HEADER, [bytes(LARGE_BYTES)], outcomes.take)
    assert content(outcomes.get(timeout=LIMIT_S)) == DATA


def test_a_large_execution_ends_as_the_connection_is_closed_here(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    started, is_over = threading.Event(), threading.Event()

    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        started.set()
        is_over.wait(LIMIT_S)
        return b""

    server.unary["Infer"] = infer
    outcomes = Endings()
    transport.submit(HEADER, [bytes(LARGE_BYTES)], outcomes.take)
    assert started.wait(LIMIT_S)
    transport.close()
    error = outcomes.get(timeout=LIMIT_S).error
    is_over.set()
    assert isinstance(error, ov.Cancelled)
    assert "was closed here" in str(error)
    assert methods_of(server) == ["Session", "Infer"], "it is not begun anew"


def test_a_large_execution_that_finds_no_room_says_when_to_try_again(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((CODE_METADATA, "QUEUE_FULL"), (RETRY_AFTER_METADATA, "1")))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "CPU queue is full")

    server.unary["Infer"] = refuse
    outcomes = Endings()
    transport.submit(HEADER, [bytes(LARGE_BYTES)], outcomes.take)
    error = outcomes.get(timeout=LIMIT_S).error
    assert isinstance(error, ov.QueueFull)
    assert error.retry_after_s == 1.0


def test_a_large_execution_that_is_cancelled_is_cancelled_on_the_server(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    started, ended = threading.Event(), threading.Event()

    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        del request
        context.add_callback(ended.set)
        started.set()
        ended.wait(LIMIT_S)
        return b""

    server.unary["Infer"] = infer
    execution = transport.submit(HEADER, [bytes(LARGE_BYTES)], fail_if_called)
    assert started.wait(LIMIT_S)
    execution.cancel()
    assert ended.wait(LIMIT_S)


def test_one_that_is_cancelled_while_its_failure_is_read_was_cancelled_here() -> None:
    class Call:
        def result(self) -> bytes:
            raise grpc.FutureCancelledError

    outcomes = Endings()
    LargeExecution(cast("grpc.Channel", None), "here", (), outcomes.take)._end(cast("UnaryFuture", Call()))
    error = outcomes.get_nowait().error
    assert isinstance(error, ov.Cancelled)
    assert str(error) == "the inference was cancelled here"


def test_a_large_answer_that_cannot_be_taken_ends_its_execution(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    server.unary["Infer"] = lambda data, context: pb.InferResponse(
        result=pb.ExecutionResult(ids=[0])
    ).SerializeToString()
    outcomes = Endings()
    transport.submit(HEADER, [bytes(LARGE_BYTES)], delivering_badly(outcomes))
    error = outcomes.get(timeout=LIMIT_S).error
    assert str(error) == "the answer came and could not be taken: MemoryError('no room for it')"
