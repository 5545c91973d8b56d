"""A server that is silent over HTTP: one that has gone dark is told from one that computes for long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from inferwire.errors import ServerUnavailable
from inferwire.transport.credentials import Credentials
from inferwire.transport.timeouts import Timeouts
from inferwire_cli.bench.keepalive import Keepalive
from inferwire_cli.http_address import HttpAddress
from inferwire_cli.server_http import ServerHttp

HOST = "127.0.0.1"
LONG_S = 60.0
LITTLE = Timeouts(keepalive_s=0.05, answer_s=0.2)


def looking_at(port: int, timeouts: Timeouts) -> Keepalive:
    return Keepalive(ServerHttp(HttpAddress(HOST, port), Credentials()), timeouts)


def test_one_that_does_not_answer_that_either_is_lost() -> None:
    with socket.create_server((HOST, 0)) as listener:
        keepalive = looking_at(listener.getsockname()[1], LITTLE)
        refused = pytest.raises(ServerUnavailable, match=r"is there no more, or hangs: .* \(timed out\)")
        with (
            keepalive.connection(LONG_S) as connection,
            keepalive.looked_for(),
            refused as lost,
            keepalive.told_where_missing(),
        ):
            connection.request("POST", "/")
            connection.getresponse()
        # What waited was interrupted, and did not wait to its own end.
        assert "timed out" not in str(lost.value.__cause__)
        assert repr(keepalive) == f"<Keepalive of {HOST}:{listener.getsockname()[1]}: lost, 0 connections>"


class Computes(BaseHTTPRequestHandler):
    """Answers a POST once it has been asked twice whether it is there, and not by a path that it has."""

    protocol_version = "HTTP/1.1"
    asked = threading.Semaphore(0)

    def do_GET(self) -> None:
        self._answer(404)
        self.asked.release()

    def do_POST(self) -> None:
        for _ in range(2):
            self.asked.acquire()
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@pytest.fixture
def computes() -> Iterator[int]:
    """The port of a server that computes for long."""
    with ThreadingHTTPServer((HOST, 0), Computes) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def test_one_that_says_that_it_is_there_is_waited_for(computes: int) -> None:
    keepalive = looking_at(computes, Timeouts(keepalive_s=0.05, answer_s=LONG_S))
    with keepalive.connection(LONG_S) as connection, keepalive.looked_for():
        with keepalive.told_where_missing():
            connection.request("POST", "/")
            assert connection.getresponse().status == 200
        assert repr(keepalive) == f"<Keepalive of {HOST}:{computes}: looking, 1 connections>"


def test_one_that_has_ended_is_told_of_as_such() -> None:
    with socket.create_server((HOST, 0)) as listener:
        keepalive = looking_at(listener.getsockname()[1], Timeouts())
        with keepalive.connection(LONG_S) as connection:
            connection.request("POST", "/")
            with listener.accept()[0]:
                listener.close()
            refused = pytest.raises(ServerUnavailable, match="no HTTP server answers at")
            with refused as told, keepalive.told_where_missing():
                connection.getresponse()
            assert isinstance(told.value.__cause__, OSError)
