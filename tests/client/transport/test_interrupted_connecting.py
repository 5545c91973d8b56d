"""Who connects is interrupted, or leaves: others go on, and nothing is left open."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from tests.client.interrupt import PACKAGE, Interrupt
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import ScriptedServer, check_answered, submit
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport import connection, link
from inferwire.transport.address import parse_address
from inferwire.transport.connection import Connection
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.timeouts import Timeouts

WHERE = (PACKAGE, str(Path(grpc.__file__).parent), threading.__file__)
"""Whose steps a caller takes as it connects."""


def connect_to(server: ScriptedServer) -> GrpcTransport:
    return GrpcTransport(parse_address(f"127.0.0.1:{server.port}"), Timeouts(LIMIT_S))


@pytest.mark.parametrize("on_socket", [False, True], ids=["gRPC", "socket"])
def test_connecting_can_be_interrupted_anywhere(*, on_socket: bool) -> None:
    steps = 0
    while True:
        with ScriptedServer(on_socket=on_socket) as server, DaemonThreads() as beside:
            transport = connect_to(server)
            way = transport._connection  # pyright: ignore[reportPrivateUsage]
            interrupt = Interrupt(KeyboardInterrupt, steps, is_answered=True, within=WHERE)

            def connect(way: Connection = way, interrupt: Interrupt = interrupt) -> None:
                with suppress(KeyboardInterrupt), interrupt:
                    way.open()

            beside.submit(connect).result(LIMIT_S)
            assert beside.submit(way.open).result(LIMIT_S).stream.is_open
            beside.submit(transport.close).result(LIMIT_S)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 10


class SlowServer(ScriptedServer):
    """Welcomes nobody before it is told to.

    Attributes:
        asked: Set once somebody waits for a welcome.
        may_welcome: Sets it free.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_welcome = threading.Event()
        super().__init__()

    def _welcome(self, session_id: str) -> bytes:
        self.asked.set()
        assert self.may_welcome.wait(LIMIT_S)
        return super()._welcome(session_id)


@pytest.fixture
def slow() -> Iterator[SlowServer]:
    with SlowServer() as server:
        yield server
        server.may_welcome.set()


def test_what_an_interrupted_caller_began_to_open_is_the_next_ones(slow: SlowServer) -> None:
    transport = connect_to(slow)
    interrupt = Interrupt(KeyboardInterrupt, 1 << 30, is_answered=False)

    def connect() -> None:
        with interrupt, pytest.raises(KeyboardInterrupt):
            submit(transport, Endings())

    with DaemonThreads() as beside:
        beside.submit(connect).result(LIMIT_S)
        slow.asked.wait(LIMIT_S)
        answered = beside.submit(check_answered, slow, transport)
        slow.may_welcome.set()
        answered.result(LIMIT_S)
    assert len(slow.hellos) == 1
    transport.close()


def test_closing_ends_what_is_being_opened(slow: SlowServer) -> None:
    transport = connect_to(slow)

    with DaemonThreads() as beside:
        refused = beside.submit(submit, transport, Endings())
        slow.asked.wait(LIMIT_S)
        transport.close()
        slow.may_welcome.set()
        with pytest.raises(ov.Cancelled, match=rf"^the connection to 127\.0\.0\.1:{slow.port} was closed here$"):
            refused.result(LIMIT_S)
    assert slow.ended.get(timeout=LIMIT_S) == "session-1"
    slow.answers.put(None)
    check_answered(slow, transport)
    transport.close()


def test_what_is_opened_for_nobody_is_closed(slow: SlowServer) -> None:
    transport = connect_to(slow)
    interrupt = Interrupt(KeyboardInterrupt, 1 << 30, is_answered=False)

    def connect(transport: GrpcTransport) -> None:
        with interrupt, pytest.raises(KeyboardInterrupt):
            submit(transport, Endings())

    DaemonThreads().submit(connect, transport).result(LIMIT_S)
    slow.asked.wait(LIMIT_S)
    del transport
    slow.may_welcome.set()
    assert slow.ended.get(timeout=LIMIT_S) == "session-1"


def test_what_may_have_begun_as_its_caller_was_interrupted_is_nobodys(
    slow: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = connect_to(slow)

    def begin(call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        _thread.start_new_thread(call, arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(connection, "_thread", SimpleNamespace(start_new_thread=begin))
        with pytest.raises(KeyboardInterrupt):
            submit(transport, Endings())
    slow.may_welcome.set()
    assert slow.ended.get(timeout=LIMIT_S) == "session-1"
    slow.answers.put(None)
    check_answered(slow, transport)
    transport.close()


def test_one_that_finds_no_thread_to_open_it_is_opened_later(server: ScriptedServer, transport: GrpcTransport) -> None:
    usual = threading.stack_size(1 << 46)
    try:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            submit(transport, Endings())
    finally:
        threading.stack_size(usual)
    check_answered(server, transport)


class Unclosable:
    """A channel that gRPC was given no thread for: to close it takes until somebody gives in."""

    def __init__(self) -> None:
        self.gives_in = threading.Event()
        self.is_closed = threading.Event()

    def opened(self, *_about: object) -> Unclosable:
        return self

    def stream_stream(self, _method: str) -> Callable[..., object]:
        return self._call

    def close(self) -> None:
        self.gives_in.wait(LIMIT_S)
        self.is_closed.set()

    def _call(self, *_args: object, **_options: object) -> object:
        raise RuntimeError("can't start new thread")


def test_who_waits_is_told_of_a_failure_before_what_is_left_of_it_is_closed(
    server: ScriptedServer, transport: GrpcTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Unclosable()
    with monkeypatch.context() as patch, DaemonThreads() as threads:
        patch.setattr(link, "open_channel", channel.opened)
        try:
            with pytest.raises(RuntimeError, match="can't start new thread"):
                threads.submit(submit, transport, Endings()).result(LIMIT_S)
        finally:
            channel.gives_in.set()
    assert channel.is_closed.wait(LIMIT_S)
    check_answered(server, transport)
