"""Peers that listen in each of the ways that a server does."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.client.transport.session.peer import END, Peer, Place, Tls, swallowed
from tests.waiting import LIMIT_S

from inferwire.transport.session import shared_socket
from inferwire.transport.session.socket_waits import WaitsBeforeCalls


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = authority.issue()
    server.load_cert_chain(issued.certificate, issued.key)
    return Tls(server, authority.trusting)


@pytest.fixture(params=["TCP", "Unix", "TLS", "TCP, on macOS", "TLS, on macOS"])
def listen(
    request: pytest.FixtureRequest, tmp_path: Path, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Place]:
    """Listen at a port or at a file, for carriers that wait as Linux's do or as macOS's do."""
    way, _, system = request.param.partition(", ")
    if system:
        monkeypatch.setattr(shared_socket, "WAITS", WaitsBeforeCalls)

    def listen_() -> Place:
        if way != "Unix":
            return Place(socket.create_server(("127.0.0.1", 0)), tls if way == "TLS" else None)
        listener = socket.socket(socket.AF_UNIX)
        file = tmp_path / "socket"
        file.unlink(missing_ok=True)
        listener.bind(str(file))
        listener.listen()
        return Place(listener)

    return listen_


@pytest.fixture
def open_peer(listen: Callable[[], Place]) -> Iterator[Callable[..., Peer]]:
    opened: list[Peer] = []

    def open_(keepalive_s: float = LIMIT_S, answer_s: float = LIMIT_S) -> Peer:
        opened.append(Peer(listen(), keepalive_s, answer_s))
        return opened[-1]

    yield open_
    for peer in opened:
        peer.socket.close()
        peer.outgoing.put(END)
        # A carrier closes its socket only after it was read to the end and has sent its own end.
        list(swallowed(peer.carrier.receive()))
