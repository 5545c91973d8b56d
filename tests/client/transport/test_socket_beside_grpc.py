"""Where a session may leave gRPC for a socket, and where it stays."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from queue import SimpleQueue

import pytest
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import (
    DATA,
    HEADER,
    TIMEOUT_S,
    ScriptedServer,
    content,
    result,
    sent,
    submit,
)

from inferwire.transport.address import parse_address
from inferwire.transport.connection import Patience
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire_proto import frames
from inferwire_proto.frames import Kind
from inferwire_proto.inferwire.v1 import types_pb2


@contextmanager
def serving(*, on_socket: bool = False) -> Generator[ScriptedServer]:
    server = ScriptedServer(on_socket=on_socket)
    try:
        yield server
    finally:
        server.stop()


def connected(server: ScriptedServer, *, scheme: str = "", socket_s: float = 1.0) -> closing[GrpcTransport]:
    """Make a transport to a server, to be closed."""
    address = parse_address(f"{scheme}127.0.0.1:{server.port}")
    return closing(GrpcTransport(address, Patience(TIMEOUT_S, socket_s=socket_s)))


def check_answered(server: ScriptedServer, transport: GrpcTransport) -> None:
    """Send an execution over gRPC, and get its answer."""
    outcomes = Endings()
    submit(transport, outcomes)
    server.answers.put(result(*sent(server)))
    assert content(outcomes.get(timeout=TIMEOUT_S)) == DATA


def refuse(connection: socket.socket) -> None:
    """Answer as another inferwire server does."""
    refusal = types_pb2.Error(message="another server answers here")
    connection.sendall(frames.frame(Kind.END, refusal.SerializeToString()))


ELSEWHERE: dict[str, Callable[[socket.socket], object]] = {
    "it closes": lambda _: None,
    "another server": refuse,
    "no inferwire server": lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "it says nothing": lambda connection: connection.recv(1 << 16, socket.MSG_WAITALL),
}


@pytest.mark.parametrize("answer", ELSEWHERE.values(), ids=ELSEWHERE)
def test_where_the_socket_is_not_the_servers_the_session_stays_on_grpc(
    answer: Callable[[socket.socket], object],
) -> None:
    dialled = SimpleQueue[None]()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                dialled.put(None)
                with connection:
                    connection.recv(1 << 16)
                    answer(connection)

    with serving() as server, socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        server.socket_port = listener.getsockname()[1]
        with connected(server, socket_s=0.2) as transport:
            for _ in range(2):
                check_answered(server, transport)
                # What is known of that server holds for the next connection to it, too.
                server.answers.put(None)
                while transport.is_ready(HEADER):
                    time.sleep(0.001)
            dialled.get(timeout=TIMEOUT_S)
        listener.shutdown(socket.SHUT_RDWR)
    assert dialled.empty()


def test_a_session_on_a_socket_leaves_no_stream_open_on_grpc() -> None:
    with serving(on_socket=True) as server, connected(server) as transport:
        submit(transport, Endings())
        assert server.left.get(timeout=TIMEOUT_S) == "session-1"


def test_where_nobody_listens_the_session_stays_on_grpc() -> None:
    with serving() as server:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server.socket_port = listener.getsockname()[1]
        with connected(server) as transport:
            check_answered(server, transport)


def test_who_asks_for_grpc_gets_nothing_beside_it() -> None:
    with serving() as server, socket.create_server(("127.0.0.1", 0)) as listener:
        server.socket_port = listener.getsockname()[1]
        with connected(server, scheme="grpc://") as transport:
            submit(transport, Endings())
            sent(server)
            listener.settimeout(0.2)
            with pytest.raises(TimeoutError):
                listener.accept()
