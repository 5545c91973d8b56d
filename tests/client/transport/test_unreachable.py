"""A server that is not there, or is another: one sentence says so, and in time."""

from __future__ import annotations

import gc
import select
import socket
import struct
import weakref
from contextlib import suppress
from threading import Semaphore
from traceback import format_exception
from typing import Any

import pytest
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport import rpc
from inferwire.transport.address import parse_address
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.link import Link, Opener, Opening
from inferwire.transport.timeouts import Timeouts
from inferwire.transport.unreachable import why_unreachable

CALLERS = 5


def test_no_server_is_said_in_one_sentence_that_names_the_command() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ov.ServerUnavailable, match=f"{address}; start one with `inferwire serve`") as caught:
            ov.Core(address).served_model("m")
    assert "\n" not in str(caught.value)
    assert "bug" not in "".join(format_exception(caught.value)), "a line of the traceback speaks of another error"


@pytest.fixture
def opened_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing be opened before all callers wait for it, however late one of them comes."""
    wait, begin, waiting = Opening.session, Opener.open, Semaphore(0)

    def wait_for(opening: Opening) -> Link:
        waiting.release()
        return wait(opening)

    def begin_for_all(opener: Opener, session_id: str, opening: Opening) -> Link:
        for _ in range(CALLERS):
            assert waiting.acquire(timeout=LIMIT_S), "somebody waits for another one"
        return begin(opener, session_id, opening)

    monkeypatch.setattr(Opening, "session", wait_for)
    monkeypatch.setattr(Opener, "open", begin_for_all)


@pytest.mark.usefixtures("opened_for_all")
def test_those_who_wait_for_a_server_together_give_it_up_together() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=2 * CALLERS) as silent, DaemonThreads() as pool:
        transport = GrpcTransport(parse_address(f"127.0.0.1:{silent.getsockname()[1]}"), Timeouts(connect_s=0.5))

        def call() -> ov.ServerUnavailable:
            with pytest.raises(ov.ServerUnavailable, match=r"no answer within 0\.5 s") as caught:
                transport.devices()
            return caught.value

        for _ in ("those who come first", "those who come when it has been given up"):
            errors = [called.result(LIMIT_S) for called in [pool.submit(call) for _ in range(CALLERS)]]
            assert len(accepted(silent)) == 1
            assert len(set(map(id, errors))) == CALLERS


def test_a_server_that_is_given_up_keeps_nothing_of_whoever_asked_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = GrpcTransport(parse_address(f"127.0.0.1:{silent.getsockname()[1]}"), Timeouts(connect_s=0.05))

        def ask() -> weakref.ref[set[int]]:
            mine = set[int]()
            with pytest.raises(ov.ServerUnavailable):
                transport.devices()
            return weakref.ref(mine)

        gc.disable()
        try:
            assert ask()() is None
        finally:
            gc.enable()


def test_an_http_port_is_told_from_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, DaemonThreads() as pool:
        pool.submit(answer_as_http, listener)
        with pytest.raises(ov.ServerUnavailable, match=r"speaks HTTP/1\.1 and not gRPC.*8001"):
            ov.Core(f"127.0.0.1:{listener.getsockname()[1]}").served_model("m")


def test_that_no_more_files_can_be_opened_says_nothing_of_the_server() -> None:
    seen = (
        "failed to connect to all addresses; last error: INTERNAL: ipv4:127.0.0.1:8001: socket: Too many open files "
        "\x02\x00\x1f\x41\x7f\x00\x00\x01\x00\x00"
    )
    assert str(rpc.unavailable("127.0.0.1:8001", seen)) == (
        "no connection to 127.0.0.1:8001 can be opened: too many files are open here, and a connection is one"
    )


def test_one_that_closes_every_connection_is_not_taken_for_one_with_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, DaemonThreads() as pool:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        ended = pool.submit(close_at_once, listener)
        try:
            with pytest.raises(ov.ServerUnavailable, match=r"Connection reset by peer|Socket closed") as caught:
                ov.Core(address).served_model("m")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
        ended.result(LIMIT_S)
    assert str(caught.value).startswith(f"no inferwire server answers at {address};")


def test_one_that_is_gone_before_it_is_asked_for_tls_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection

    def connect_and_be_reset(*told: Any) -> socket.socket:
        connection = connect(*told)
        reset = select.poll()
        reset.register(connection, select.POLLHUP)
        reset.poll()
        return connection

    monkeypatch.setattr(socket, "create_connection", connect_and_be_reset)
    with socket.create_server(("127.0.0.1", 0)) as listener, DaemonThreads() as pool:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        ended = pool.submit(close_at_once, listener)
        try:
            why = why_unreachable(address, "failed to connect to all addresses; last error: Socket closed")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
        ended.result(LIMIT_S)
    gc.collect()
    assert why.startswith(f"no inferwire server answers at {address};")


def accepted(listener: socket.socket) -> list[str]:
    """Give the connections that have come, each by its address."""
    listener.setblocking(False)
    came: list[str] = []
    with suppress(BlockingIOError):
        while True:
            connection, address = listener.accept()
            connection.close()
            came.append(f"{address}")
    return came


def close_at_once(listener: socket.socket) -> None:
    """Reset every connection, as the system of a process that was killed does, until the listener is shut down."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def answer_as_http(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        while connection.recv(1 << 16):
            pass
