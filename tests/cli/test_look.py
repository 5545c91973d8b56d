"""What `inferwire top` takes of what a server says."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from tests.front import Front

from inferwire.errors import InferwireError
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


def test_what_a_server_says_that_refuses_is_said() -> None:
    body = b'{"error": "this port speaks TLS alone", "code": "INVALID_INPUT"}'

    def answer(connection: socket.socket) -> None:
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    with closing(Front(answer)) as front:
        refusing = ServerHttp(HttpAddress(HOST, front.port), Credentials())
        with pytest.raises(InferwireError, match=r"^this port speaks TLS alone$"):
            look(refusing)


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
    assert seen.devices == (DeviceNow("CPU", 1, 2, 3, 4),)
    assert seen.models == (ModelNow("m", "1", "ready"), ModelNow("m", "1", "ready", "why"))
    assert seen.metrics.sum("more") == 1
