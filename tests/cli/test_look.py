"""What `inferwire top` takes of what a server says."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Generator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.certificates import Authority
from tests.front import Front

from inferwire.errors import InferwireError, ServerUnavailable
from inferwire.transport.credentials import Credentials
from inferwire_cli.http_address import HttpAddress
from inferwire_cli.server_http import ServerHttp
from inferwire_cli.top.look import DeviceNow, ModelNow, look

HOST = "127.0.0.1"
DEVICE = {"name": "CPU", "full_name": "a CPU", "running": 1, "slots": 2, "queued": 3, "queue_capacity": 4}
MODEL = {"name": "m", "version": "1", "state": "ready"}
SAID = {
    "/": json.dumps({"name": "inferwire", "version": "9", "more": 1}),
    "/inferwire/v1/devices": json.dumps({"devices": [DEVICE | {"more": 1}], "more": 1}),
    "/inferwire/v1/models": json.dumps({"models": [MODEL | {"more": 1}, MODEL | {"reason": "why"}], "more": 1}),
    "/metrics": "more 1\n",
}


def test_what_answers_without_an_end_is_no_server_of_ours() -> None:
    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                connection.sendall(bytes(1 << 20))

    with closing(Front(answer)) as front:
        endless = ServerHttp(HttpAddress(HOST, front.port), Credentials())
        with pytest.raises(InferwireError, match="is no inferwire server: / gave more than 64 MiB"):
            look(endless)


@pytest.mark.timeout(60, method="signal")
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize(
    "beginnings",
    [
        [b"HTTP/1.1 200 OK\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nx: "],
        [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}", b"HTTP/1.1 200 OK\r\n\r\n"],
    ],
    ids=["a body", "headers", "the second connection's body"],
)
def test_what_goes_on_saying_a_little_is_not_listened_to_for_ever(
    tmp_path: Path, beginnings: list[bytes], *, is_secure: bool
) -> None:
    authority, is_over, to_say = Authority(tmp_path), Event(), list(beginnings)
    issued = authority.issue()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)

    def answer(connection: socket.socket) -> None:
        beginning = to_say.pop(0)
        with suppress(OSError), context.wrap_socket(connection, server_side=True) if is_secure else connection as peer:
            peer.recv(1 << 16)
            peer.sendall(beginning)
            while not beginning.endswith(b"{}") and not is_over.wait(0.01):
                peer.sendall(b"a")

    with closing(Front(answer)) as front:
        address = HttpAddress(HOST, front.port, is_secure)
        server = ServerHttp(address, Credentials(root_certificates=authority.root.read_bytes()))
        sentence = f"^what answers at {address} has not said all within 0.5 s$"
        try:
            with pytest.raises(ServerUnavailable, match=sentence):
                look(server, 0.5)
        finally:
            is_over.set()


@pytest.fixture
def newer() -> Generator[ServerHttp]:
    """A server that says more of everything than is known of here."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(SAID[self.path].encode())

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Stay silent."""

    with HTTPServer((HOST, 0), Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield ServerHttp(HttpAddress(HOST, server.server_port), Credentials())
        server.shutdown()
        thread.join()


def test_what_a_newer_server_says_besides_is_left_out(newer: ServerHttp) -> None:
    seen = look(newer)
    assert seen.server == "inferwire 9"
    assert seen.devices == (DeviceNow("CPU", "a CPU", 1, 2, 3, 4),)
    assert seen.models == (ModelNow("m", "1", "ready"), ModelNow("m", "1", "ready", "why"))
    assert seen.metrics.sum("more") == 1
