"""Where a session may leave gRPC for a socket, and where it stays."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
import trustme
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import F32, HEADER, ScriptedServer, check_answered, submit
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire.transport.address import parse_address
from inferwire.transport.connection import Connection
from inferwire.transport.credentials import credentials_for
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.link import Link
from inferwire.transport.timeouts import Timeouts
from inferwire_proto import frames
from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.frames import Kind
from inferwire_proto.inferwire.v1 import types_pb2

MOST_OTHERS = 15
"""So often another server may answer."""


def connected(
    server: ScriptedServer, *, scheme: str = "", host: str = "127.0.0.1", socket_s: float = 1.0
) -> closing[GrpcTransport]:
    """Make a transport to a server, to be closed."""
    address = parse_address(f"{scheme}{host}:{server.port}")
    return closing(GrpcTransport(address, Timeouts(LIMIT_S, socket_s=socket_s)))


def refuse(connection: socket.socket) -> None:
    """Answer as another inferwire server does."""
    refusal = types_pb2.Error(code=types_pb2.ERROR_CODE_SESSION_EXPIRED, message="another server answers here")
    connection.sendall(frames.frame(Kind.END, refusal.SerializeToString()))


ELSEWHERE: dict[str, Callable[[socket.socket], object]] = {
    "it closes": lambda _: None,
    "no inferwire server": lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "it says nothing": lambda connection: connection.recv(1 << 16, socket.MSG_WAITALL),
}


@pytest.mark.parametrize("answer", ELSEWHERE.values(), ids=ELSEWHERE)
def test_where_the_socket_is_not_the_servers_the_session_stays_on_grpc(
    answer: Callable[[socket.socket], object],
) -> None:
    dialled = SimpleQueue[None]()

    def take(connection: socket.socket) -> None:
        dialled.put(None)
        connection.recv(1 << 16)
        answer(connection)

    with ScriptedServer(stranger=take) as server, connected(server, socket_s=0.2) as transport:
        for _ in range(2):
            check_answered(server, transport)
            # What is known of that server holds for the next connection to it, too.
            server.answers.put(None)
            wait_until(lambda: not transport.is_ready(HEADER))
        dialled.get(timeout=LIMIT_S)
    assert dialled.empty()


class BalancedServer(ScriptedServer):
    """Stands behind a load balancer, which leads to other servers so many times before it leads to this one.

    Attributes:
        dialled: How often it has led to any.
    """

    def __init__(self, others: int) -> None:
        self.dialled, self._others = 0, others
        super().__init__(on_socket=others <= MOST_OTHERS, stranger=self._lead)

    def _lead(self, connection: socket.socket) -> None:
        self.dialled += 1
        if self.dialled <= self._others:
            connection.recv(1 << 16)
            refuse(connection)
        else:
            self._on_socket(connection)


@pytest.mark.parametrize("others", [1, MOST_OTHERS])
def test_a_load_balancer_that_leads_to_others_first_is_asked_again(others: int) -> None:
    with BalancedServer(others) as server, connected(server, socket_s=LIMIT_S) as transport:
        check_answered(server, transport)
        assert server.left.get(timeout=LIMIT_S) == "session-1"
        assert server.dialled == others + 1


def test_a_load_balancer_that_leads_nowhere_else_is_not_asked_for_ever() -> None:
    with BalancedServer(1000) as server, connected(server, socket_s=LIMIT_S) as transport:
        check_answered(server, transport)
        assert server.dialled == 1 + MOST_OTHERS


def test_a_load_balancer_is_asked_again_no_longer_than_a_server_has_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferwire.transport.link.monotonic", partial(next, count(0, 1)))
    with BalancedServer(1000) as server, connected(server, socket_s=3) as transport:
        check_answered(server, transport)
        assert server.dialled == 3


def test_a_session_on_a_socket_leaves_no_stream_open_on_grpc() -> None:
    with ScriptedServer(on_socket=True) as server, connected(server) as transport:
        submit(transport, Endings())
        assert server.left.get(timeout=LIMIT_S) == "session-1"


@pytest.fixture
def two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give `localhost` two addresses, 127.0.0.2 first, but for gRPC, which has a resolver of its own."""
    resolve: Any = socket.getaddrinfo

    def resolve_two(host: Any, *args: Any, **kwargs: Any) -> Any:
        hosts = ("127.0.0.2", "127.0.0.1") if host == "localhost" else (host,)
        return [found for each in hosts for found in resolve(each, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve_two)


@pytest.mark.usefixtures("two_addresses")
def test_of_a_hosts_addresses_the_one_is_found_that_the_server_has() -> None:
    """As where the host's name is that of replicas: another server answers at the first."""

    def answer(listener: socket.socket) -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            connection.recv(1 << 16)
            refuse(connection)

    with ScriptedServer(on_socket=True) as server, socket.create_server(("127.0.0.2", server.port)) as elsewhere:
        threading.Thread(target=answer, args=(elsewhere,), daemon=True).start()
        address = parse_address(f"localhost:{server.port}")
        with closing(GrpcTransport(address, Timeouts(LIMIT_S, socket_s=LIMIT_S))) as transport:
            check_answered(server, transport)
            assert server.left.get(timeout=LIMIT_S) == "session-1"
        elsewhere.shutdown(socket.SHUT_RDWR)


@pytest.mark.usefixtures("two_addresses")
def test_a_hosts_addresses_are_tried_no_longer_than_a_server_has_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferwire.transport.link.monotonic", partial(next, count(0, LIMIT_S + 1)))
    dialled = SimpleQueue[socket.socket]()
    with ScriptedServer(stranger=dialled.put) as server:
        address = parse_address(f"localhost:{server.port}")
        with closing(GrpcTransport(address, Timeouts(LIMIT_S, socket_s=0.2))) as transport:
            check_answered(server, transport)
            assert dialled.empty()


@pytest.mark.usefixtures("two_addresses")
def test_at_each_address_the_certificate_is_to_be_the_hosts(private_ca: trustme.CA, roots: Path) -> None:
    certificate = private_ca.issue_cert("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    came = SimpleQueue[bytes]()

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError), context.wrap_socket(connection, server_side=True) as encrypted:
            came.put(encrypted.recv(len(frames.PREFACE)))

    pair = certificate.private_key_pem.bytes(), certificate.cert_chain_pems[0].bytes()
    with (
        ScriptedServer(certificate=grpc.ssl_server_credentials([pair])) as server,
        socket.create_server(("127.0.0.2", server.port)) as elsewhere,
    ):
        server.takes_sockets = True
        threading.Thread(target=answer, args=(elsewhere,), daemon=True).start()
        address = parse_address(f"grpcs://localhost:{server.port}")
        found = credentials_for(address, root_certificates=roots)
        with closing(GrpcTransport(address, Timeouts(LIMIT_S), found)) as transport:
            check_answered(server, transport)
            assert came.get(timeout=LIMIT_S) == frames.PREFACE


def test_where_the_systems_resolver_knows_no_such_host_the_session_stays_on_grpc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GRPC has a resolver of its own, which may know more."""

    resolve: Any = socket.getaddrinfo

    def know_numbers(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "localhost":
            raise socket.gaierror("Name or service not known")
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", know_numbers)
    with ScriptedServer(stranger=refuse) as server, connected(server, host="localhost") as transport:
        check_answered(server, transport)


def test_nobody_dials_a_server_that_takes_no_sockets() -> None:
    dialled = SimpleQueue[socket.socket]()
    with ScriptedServer(stranger=dialled.put) as server, connected(server) as transport:
        server.takes_sockets = False
        check_answered(server, transport)
        assert dialled.empty()


class AwaitedServer(ScriptedServer):
    """Says nothing at its socket before somebody has asked for a model, and tells of none before somebody has dialled.

    Attributes:
        dialled: Set once somebody has.
        has_told: Set once it has told of a model.
    """

    def __init__(self) -> None:
        self.dialled, self.has_told = threading.Event(), threading.Event()
        super().__init__(on_socket=True)
        self.unary["GetModel"] = self._tell

    def _tell(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        assert self.dialled.wait(LIMIT_S)
        self.has_told.set()
        return b""

    def _on_socket(self, connection: socket.socket) -> None:
        self.dialled.set()
        assert self.has_told.wait(LIMIT_S)
        super()._on_socket(connection)


@contextmanager
def awaited() -> Generator[tuple[AwaitedServer, GrpcTransport]]:
    with AwaitedServer() as server, connected(server, socket_s=LIMIT_S) as transport:
        yield server, transport


def test_calls_are_made_while_the_session_moves_to_its_socket_and_inferences_follow_it() -> None:
    """Which takes as many round trips as the call and one more."""
    with awaited() as (server, transport):
        transport.served_model("m", "")
        check_answered(server, transport)
        assert server.left.get(timeout=LIMIT_S) == "session-1"
        assert len(server.hellos) == 1


def test_a_call_that_fails_while_the_session_moves_is_made_again_on_another_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with awaited() as (server, transport):
        replace = Connection.replace

        def move_later(connection: Connection, lost: Link) -> Link:
            threading.Timer(0.1, server.has_told.set).start()
            return replace(connection, lost)

        def fail_once(data: bytes, context: grpc.ServicerContext) -> bytes:
            if not server.has_told.is_set():
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is lost")
            return b""

        monkeypatch.setattr(Connection, "replace", move_later)
        server.unary["GetModel"] = fail_once
        transport.served_model("m", "")
        assert len(server.hellos) == 2


def test_what_is_released_while_the_session_moves_makes_room_for_others() -> None:
    with awaited() as (server, transport):
        is_freed = threading.Event()

        def create(data: bytes, context: grpc.ServicerContext) -> bytes:
            assert server.dialled.wait(LIMIT_S)
            if not is_freed.is_set():
                context.set_trailing_metadata(((CODE_METADATA, "TOO_LARGE"),))
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")
            server.has_told.set()
            return b""

        def release(data: bytes, context: grpc.ServicerContext) -> bytes:
            is_freed.set()
            return b""

        server.unary |= {"CreateTensor": create, "Release": release}
        transport.tensors.release(transport.tensors.new_id())
        transport.tensors.create(transport.tensors.new_id(), F32, (2,))


def test_closing_ends_a_call_that_is_made_while_the_session_moves() -> None:
    with awaited() as (server, transport):
        is_asked = threading.Event()

        def wait(data: bytes, context: grpc.ServicerContext) -> bytes:
            is_asked.set()
            assert server.has_told.wait(LIMIT_S)
            return b""

        server.unary["GetModel"] = wait
        ended = DaemonThreads().submit(transport.served_model, "m", "")
        assert is_asked.wait(LIMIT_S)
        transport.close()
        with pytest.raises(ov.Cancelled):
            ended.result(LIMIT_S)
        server.has_told.set()


def test_who_asks_for_grpc_gets_nothing_beside_it() -> None:
    dialled = SimpleQueue[socket.socket]()
    with ScriptedServer(stranger=dialled.put) as server, connected(server, scheme="grpc://") as transport:
        check_answered(server, transport)
        assert dialled.empty()
