"""Who makes a call of its own is interrupted: others make theirs on the same channel, and it can be closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest
from tests.client.interrupt import PACKAGE, Interrupt
from tests.client.transport.endings import fail_if_called
from tests.client.transport.scripted_server import DATA, ScriptedServer
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

from inferwire.transport import rpc
from inferwire.transport.large_execution import LargeExecution
from inferwire.transport.link import Link
from inferwire.transport.session.carriers import GrpcCarrier
from inferwire.transport.session.session_stream import SessionStream
from inferwire_proto.inferwire.v1 import models_pb2 as pb
from inferwire_proto.inferwire.v1.inference_pb2 import SessionHello

WHERE = (PACKAGE, str(Path(grpc.__file__).parent), threading.__file__)
"""Whose steps a caller takes."""


def ask(channel: grpc.Channel) -> object:
    return rpc.call(channel, "ModelService.Read", pb.ReadRequest(), pb.ReadResponse, ())


def ask_raw(channel: grpc.Channel) -> object:
    return rpc.call_raw(channel, "ModelService.Read", b"", ())


def send_many(channel: grpc.Channel) -> object:
    return rpc.call_with_streams(channel, "ModelService.Upload", [[pb.UploadRequest()]] * 2, pb.UploadResponse, ())


def receive_many(channel: grpc.Channel) -> object:
    parts: list[pb.ExportResponse] = []
    rpc.call_for_stream(channel, "ModelService.Export", pb.ExportRequest(), pb.ExportResponse, (), parts.append)
    return parts


def start(channel: grpc.Channel) -> object:
    ended: SimpleQueue[object] = SimpleQueue()
    rpc.start_unary(channel, "ModelService.Read", b"", (), ended.put)
    return ended.get(timeout=LIMIT_S)


CALLS: list[Callable[[grpc.Channel], object]] = [ask, ask_raw, send_many, receive_many, start]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.mark.parametrize("call", CALLS)
def test_a_call_can_be_interrupted_anywhere(server: ScriptedServer, call: Callable[[grpc.Channel], object]) -> None:
    server.unary = dict.fromkeys(("Read", "Upload", "Export"), lambda data, context: b"")
    steps = 0
    while True:
        interrupt = Interrupt(KeyboardInterrupt, steps, is_answered=True, within=WHERE)
        channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
        # On the main thread, as every handler of a signal runs. What came of it is kept: what is raised in a destructor
        # nobody hears of.
        made: object = None
        with suppress(KeyboardInterrupt), interrupt:
            made = call(channel)
        del made
        with DaemonThreads() as beside:
            for other in (ask, start):
                beside.submit(other, channel).result(LIMIT_S)
            beside.submit(channel.close).result(LIMIT_S)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 5


def test_the_cancelling_of_a_large_execution_can_be_interrupted_anywhere(server: ScriptedServer) -> None:
    started: SimpleQueue[threading.Event] = SimpleQueue()

    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        del request
        ended = threading.Event()
        context.add_callback(ended.set)
        started.put(ended)
        ended.wait(LIMIT_S)
        return b""

    server.unary.update(Infer=infer, Read=lambda data, context: b"")
    steps = 0
    while True:
        interrupt = Interrupt(KeyboardInterrupt, steps, is_answered=True, within=WHERE)
        channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
        execution = LargeExecution(channel, "here", (), fail_if_called)
        execution.start(b"", [DATA])
        ended = started.get(timeout=LIMIT_S)
        with suppress(KeyboardInterrupt), interrupt:
            execution.cancel()
        with DaemonThreads() as beside:
            for other in (ask, start):
                beside.submit(other, channel).result(LIMIT_S)
            # Whoever cancels what was cancelled half way may do so again.
            beside.submit(execution.cancel).result(LIMIT_S)
            assert ended.wait(LIMIT_S)
            beside.submit(channel.close).result(LIMIT_S)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 2


def test_the_closing_of_a_link_can_be_interrupted_anywhere() -> None:
    steps = 0
    while True:
        interrupt = Interrupt(KeyboardInterrupt, steps, is_answered=True, within=WHERE)
        with ScriptedServer() as server:
            channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
            stream = SessionStream(GrpcCarrier(channel, "here", ()), "here", SessionHello(), LIMIT_S)
            link = Link(channel, stream, ())
            with suppress(KeyboardInterrupt), interrupt:
                link.close()
            DaemonThreads().submit(link.close).result(LIMIT_S)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 5
