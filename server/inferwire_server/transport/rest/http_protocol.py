"""HTTP/1.1 as uvicorn speaks it, with a bound on what a peer may send before a request begins."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from inferwire_proto.errors import Code
from inferwire_proto.frames import PREFACE
from inferwire_server.transport.rest.exchange import EXTENSION, Connection, Exchange
from inferwire_server.transport.rest.joined_writes import JoinedWrites
from inferwire_server.transport.rest.request_ids import RequestIds
from inferwire_server.transport.session.session_file import TakeOver

LONGEST_HEAD = 64 * 1024
"""The most bytes of a request line and headers; the parser itself would keep any number."""


def _refusal(status: bytes, code: Code, sentence: str) -> bytes:
    """Write an answer that closes the connection, for what never became a request."""
    body = orjson.dumps({"error": sentence, "code": code.name})
    head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d" % len(body)
    return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, head, body)


_HEAD_TOO_LONG = _refusal(
    b"431 Request Header Fields Too Large",
    Code.TOO_LARGE,
    f"the request line and headers are longer than {LONGEST_HEAD} bytes",
)
_NO_HTTP = _refusal(b"400 Bad Request", Code.INVALID_INPUT, "what arrived is no HTTP/1.1 request")
_NO_GRPC = _refusal(
    b"400 Bad Request",
    Code.INVALID_INPUT,
    "this is the HTTP port, which takes no HTTP/2: gRPC calls go to the gRPC port, 8001 unless set with --grpc-port",
)
_HTTP2_PREFACE = b"PRI * HTTP/2.0"

GATHERED_BODY = 1024 * 1024
"""How much of a body is gathered before the application is woken for it, and the peer told to wait."""


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _is_in_head = True
    _opening = b""
    _head_size = 0
    _received = 0

    def __init__(self, ids: RequestIds, take_over: TakeOver | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._ids = ids
        self._take_over = take_over

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take a connection. What is written to it goes out at once, the parts of an answer together."""
        super().connection_made(transport)
        peer: socket.socket = transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        joined = JoinedWrites(transport, self.loop)
        self.transport = joined
        self._connection = Connection(joined, self.flow)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection, and tell whoever works for it."""
        super().connection_lost(exc)
        self._connection.lost()

    def data_received(self, data: bytes) -> None:
        """Take in bytes, unless they are more of a head that is too long already."""
        if self._take_over is not None:
            data = self._opening + data
            if len(data) < len(PREFACE) and PREFACE.startswith(data):
                self._opening = data
                return
            take_over, self._take_over = self._take_over, None
            if data.startswith(PREFACE):
                self._leave_to(take_over, data[len(PREFACE) :])
                return
        self._received = len(data)
        if self._head_size == 0 and data.startswith(_HTTP2_PREFACE):
            self._refuse(_NO_GRPC)
            return
        super().data_received(data)
        if not self._is_in_head:
            return
        self._head_size += len(data)
        if self._head_size > LONGEST_HEAD and not self.transport.is_closing():
            self._refuse(_HEAD_TOO_LONG)

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._is_in_head = False
        super().on_headers_complete()
        cycle = self.cycle
        cycle.default_headers = [*cycle.default_headers, self._ids.name(self.headers)]
        extensions: dict[str, Any] = {EXTENSION: Exchange(cycle, self._connection)}
        cycle.scope["extensions"] = extensions

    def on_body(self, body: bytes) -> None:
        """Take in more of a body. uvicorn would stop reading at each 64 KiB until the application has had its turn."""
        if self.cycle.response_complete:
            return
        self.cycle.body += body
        if len(self.cycle.body) >= GATHERED_BODY:
            self.flow.pause_reading()
            self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        """End a request; the bytes that did are not counted as the next one's head."""
        self._is_in_head = True
        self._head_size = -self._received
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's sentence is plain text
        """Answer what is no HTTP as every other error is answered."""
        self._refuse(_NO_HTTP)

    def _leave_to(self, take_over: TakeOver, data: bytes) -> None:
        """Have another protocol speak on this connection from now on."""
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        self.parser: Any = None  # they would keep one another until garbage is looked for
        take_over(self._connection.transport.release(), data)

    def _refuse(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()
