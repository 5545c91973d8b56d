"""Connections to a server's HTTP: how long they may take to open, and their answers to come."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from inferwire.errors import ServerUnavailable
from inferwire.transport.credentials import Credentials
from inferwire_cli import server_http
from inferwire_cli.http_address import HttpAddress
from inferwire_cli.server_http import ServerHttp

HOST = "127.0.0.1"


@pytest.fixture
def silent() -> Iterator[ServerHttp]:
    """A server that takes a connection or two, and looks at none of them."""
    with socket.create_server((HOST, 0), backlog=0) as listener:
        yield ServerHttp(HttpAddress(HOST, listener.getsockname()[1]), Credentials())


def fill(server: ServerHttp, opened: ExitStack) -> None:
    """Open more connections than it takes."""
    for _ in range(10):
        opened.enter_context(closing(server.open(120.0)))


def test_an_answer_may_take_longer_than_a_connection(silent: ServerHttp) -> None:
    with closing(silent.open(120.0)) as connection:
        # The second is that of a connection which is opened again.
        assert (connection.sock.gettimeout(), connection.timeout) == (120.0, 120.0)


def test_a_server_that_takes_no_more_connections_is_not_waited_for_as_an_answer_is(
    silent: ServerHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_http, "CONNECT_TIMEOUT_S", 0.2)
    with ExitStack() as opened, pytest.raises(ServerUnavailable, match=r"no HTTP server answers at .* \(timed out\)"):
        fill(silent, opened)
