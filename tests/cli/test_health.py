"""A server is ready when it says so, and not otherwise."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import create_server
from ssl import CERT_NONE, CERT_REQUIRED
from threading import Thread

import pytest
import trustme
from tests.cli.tls_front import TlsFront, tls_front

from inferwire_cli.health import READY_PATH, _context, is_ready, main

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


def with_tls(port: int) -> AbstractContextManager[TlsFront]:
    """Serve with a certificate that nobody trusts, for another name."""
    return tls_front(port, trustme.CA().issue_cert("elsewhere.example"), "http/1.1")


def test_a_server_on_this_machine_is_asked_over_tls_whatever_its_certificate_says() -> None:
    with server_answering(200) as (port, _), with_tls(port) as front:
        own = {"INFERWIRE_HTTP_PORT": str(front.port), "INFERWIRE_TLS_CERTIFICATE": "/certificate.pem"}
        assert main([], own) == 0
        assert main([f"127.0.0.1:{front.port}"], own) == 0
        assert main([f"https://localhost:{front.port}"], {}) == 0
        assert main([], own | {"INFERWIRE_TLS_CERTIFICATE": ""}) == 1
    with server_answering(503) as (port, _), with_tls(port) as front:
        assert main([f"https://{HOST}:{front.port}"], {}) == 1


def test_a_server_without_tls_is_not_ready_where_its_settings_say_tls() -> None:
    with server_answering(200) as (port, asked):
        assert main([], {"INFERWIRE_HTTP_PORT": str(port), "INFERWIRE_TLS_CERTIFICATE": "/certificate.pem"}) == 1
    assert asked == []


def test_another_machine_is_verified() -> None:
    assert (_context("127.0.0.1").check_hostname, _context("127.0.0.1").verify_mode) == (False, CERT_NONE)
    assert (_context("elsewhere").check_hostname, _context("elsewhere").verify_mode) == (True, CERT_REQUIRED)
