"""A server is ready when it says so, and not otherwise."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import AF_INET, AF_INET6, create_server
from socketserver import BaseRequestHandler, TCPServer
from ssl import CERT_NONE, CERT_REQUIRED
from threading import Thread

import pytest
import trustme
from tests.cli.tls_front import TlsFront, tls_front
from tests.ipv6 import NEEDS_IPV6

from inferwire_cli.health import READY_PATH, _context, is_ready, main

HOST = "127.0.0.1"


@contextmanager
def server_answering(status: int, host: str = HOST) -> Generator[tuple[int, list[str]]]:
    """Answer every GET with one status; give the port and the paths that were asked."""
    asked: list[str] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Stay silent."""

    class Listening(HTTPServer):
        address_family = AF_INET6 if ":" in host else AF_INET

    with Listening((host, 0), Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, asked
        finally:
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


@pytest.mark.parametrize(
    ("listens_at", "variable"),
    [
        ("127.0.0.2", "127.0.0.2"),
        pytest.param("::1", "::1", marks=NEEDS_IPV6),
        (HOST, "0.0.0.0"),
        (HOST, "::"),
        (HOST, "localhost"),
        (HOST, ""),
    ],
)
def test_without_an_address_it_asks_at_the_host_that_the_server_reads_too(listens_at: str, variable: str) -> None:
    with server_answering(200, listens_at) as (port, asked):
        assert main([], {"INFERWIRE_HOST": variable, "INFERWIRE_HTTP_PORT": str(port)}) == 0
    assert asked == [READY_PATH]


def test_where_a_server_with_an_address_of_ipv6_is_asked_is_said_as_urls_have_it(
    closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], {"INFERWIRE_HOST": "::1", "INFERWIRE_HTTP_PORT": str(closed_port)}) == 1
    assert capsys.readouterr().err.startswith(f"the server at [::1]:{closed_port} is not reached: ")


def with_tls(port: int) -> AbstractContextManager[TlsFront]:
    """Serve with a certificate that nobody trusts, for another name."""
    return tls_front(port, trustme.CA().issue_cert("elsewhere.example"), "http/1.1")


def test_a_server_on_this_machine_is_asked_over_tls_whatever_its_certificate_says() -> None:
    with server_answering(200) as (port, _), with_tls(port) as front:
        own = {"INFERWIRE_HTTP_PORT": str(front.port), "INFERWIRE_TLS_CERTIFICATE": "/certificate.pem"}
        assert main([], own) == 0
        assert main([f"127.0.0.1:{front.port}"], own) == 0
        assert main([f"https://localhost:{front.port}"], {}) == 0
        # Flags may have told the server what the environment does not say.
        assert main([], own | {"INFERWIRE_TLS_CERTIFICATE": ""}) == 0
        assert main([f"localhost:{front.port}"], {}) == 0
    with server_answering(503) as (port, _), with_tls(port) as front:
        assert main([f"https://{HOST}:{front.port}"], {}) == 1


@contextmanager
def saying(words: bytes) -> Generator[tuple[int, list[bytes]]]:
    """Say the same to everyone who connects, and close the connection; give the port and what was asked."""
    asked: list[bytes] = []

    class Saying(BaseRequestHandler):
        def handle(self) -> None:
            asked.append(self.request.recv(4096))
            self.request.sendall(words)

    with TCPServer((HOST, 0), Saying) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], asked
        server.shutdown()
        thread.join()


ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
"""What some servers with TLS say to a client without: that this is no version of it."""


@pytest.mark.parametrize(
    ("words", "why"),
    [(b"", "Remote end closed connection without response"), (ALERT, "what answers there speaks no HTTP")],
)
def test_what_closes_the_connection_is_asked_once_more_with_tls(
    words: bytes, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with saying(words) as (port, asked):
        assert main([f"{HOST}:{port}"], {}) == 1
    assert [each[:3] for each in asked] == [b"GET", b"\x16\x03\x01"]
    assert capsys.readouterr().err == f"the server at {HOST}:{port} is not reached: {why}\n"


def test_why_it_is_not_ready_is_said(closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    def said(given: str) -> str:
        assert main([given], {}) == 1
        return capsys.readouterr().err

    place = f"{HOST}:{closed_port}"
    assert said(place) == f"the server at {place} is not reached: [Errno 111] Connection refused\n"
    with server_answering(503) as (port, asked):
        assert said(f"{HOST}:{port}") == f"the server at {HOST}:{port} is not ready: it answered 503\n"
        assert "WRONG_VERSION_NUMBER" in said(f"https://{HOST}:{port}")
    assert asked == [READY_PATH]
    for given in ("8000", "box:", "box:http", ":8000", "box:65536"):
        assert said(given) == f"the address is '{given}', expected HOST:PORT or https://HOST:PORT\n"


def test_who_is_ready_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with server_answering(200) as (port, _), with_tls(port) as front:
        assert main([f"{HOST}:{front.port}"], {}) == main([f"{HOST}:{port}"], {}) == 0
    assert capsys.readouterr() == ("", "")


def test_a_server_without_tls_is_not_ready_where_its_settings_say_tls() -> None:
    with server_answering(200) as (port, asked):
        assert main([], {"INFERWIRE_HTTP_PORT": str(port), "INFERWIRE_TLS_CERTIFICATE": "/certificate.pem"}) == 1
    assert asked == []


def test_another_machine_is_verified() -> None:
    own, other = _context(is_own=True), _context(is_own=False)
    assert (own.check_hostname, own.verify_mode) == (False, CERT_NONE)
    assert (other.check_hostname, other.verify_mode) == (True, CERT_REQUIRED)
