"""A server is ready when it says so, and not otherwise."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import create_server
from threading import Thread

import pytest

from inferwire_cli.health import READY_PATH, is_ready, main

HOST = "127.0.0.1"


@contextmanager
def server_answering(status: int) -> Generator[tuple[int, list[str]]]:
    """Answer every GET with one status; give the port and the paths that were asked."""
    asked: list[str] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Stay silent."""

    with HTTPServer((HOST, 0), Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, asked
        server.shutdown()
        thread.join()


@pytest.fixture
def closed_port() -> int:
    """A port that nobody listens on."""
    with create_server((HOST, 0)) as found:
        return found.getsockname()[1]


@pytest.mark.parametrize(("status", "ready"), [(200, True), (400, False), (503, False)])
def test_ready_is_what_the_server_says(status: int, ready: bool) -> None:
    with server_answering(status) as (port, asked):
        assert is_ready(HOST, port) is ready
    assert asked == [READY_PATH]


def test_a_server_that_is_not_there_is_not_ready(closed_port: int) -> None:
    assert not is_ready(HOST, closed_port)


def test_the_exit_code_says_it_for_the_given_address(closed_port: int) -> None:
    with server_answering(200) as (port, _):
        assert main([f"{HOST}:{port}"], {}) == 0
    assert main([f"{HOST}:{closed_port}"], {}) == 1


def test_without_an_address_it_asks_the_port_that_the_server_reads_too(closed_port: int) -> None:
    with server_answering(200) as (port, _):
        assert main([], {"INFERWIRE_HTTP_PORT": str(port)}) == 0
    assert main([], {"INFERWIRE_HTTP_PORT": str(closed_port)}) == 1
