"""HTTP/1.1 as uvicorn speaks it, for requests as our own parser reads them; and what becomes of all that is none."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import orjson
from httptools import HttpParserError
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from inferwire_proto.errors import Code
from inferwire_proto.frames import PREFACE
from inferwire_server.transport.http.awaited import Awaited, RequestTimeouts
from inferwire_server.transport.http.exchange import EXTENSION, Connection, Exchange, Exchanged, Turns
from inferwire_server.transport.http.joined_writes import JoinedWrites
from inferwire_server.transport.http.long_body import LONG, LONGEST, LongBody
from inferwire_server.transport.http.request_headers import stated_length
from inferwire_server.transport.http.request_ids import RequestIds
from inferwire_server.transport.http.request_parser import LONGEST_HEAD, RequestParser, TooLong, UnknownCoding
from inferwire_server.transport.session.session_file import TakeOver


def _refusal(status: bytes, code: Code, sentence: str) -> bytes:
    """Write an answer that closes the connection, for what never became a request."""
    body = orjson.dumps({"error": sentence, "code": code.name})
    head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d" % len(body)
    return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, head, body)


_HEAD_TOO_LONG = _refusal(
    b"431 Request Header Fields Too Large",
    Code.TOO_LARGE,
    f"the request line and headers, or what stands between parts of the body, are longer than {LONGEST_HEAD} bytes",
)
_NO_HTTP = _refusal(b"400 Bad Request", Code.INVALID_INPUT, "what arrived is no HTTP/1.1 request")
_UNKNOWN_CODING = _refusal(
    b"501 Not Implemented",
    Code.UNIMPLEMENTED,
    "the request's transfer-encoding is one that is not known here, expected chunked, or content-encoding instead",
)
_NO_GRPC = _refusal(
    b"400 Bad Request",
    Code.INVALID_INPUT,
    "this is the HTTP port, which takes no HTTP/2: gRPC calls go to the gRPC port, 8001 unless set with --grpc-port",
)
_HTTP2 = b"PRI"
"""The method that HTTP/2 begins with, so that servers of HTTP/1.1 know it."""

_TOO_SLOW = _refusal(b"408 Request Timeout", Code.DEADLINE_EXCEEDED, "no more of the request has come for too long")

_HEAD_END = b"\r\n\r\n"

_MUCH = 16 * 1024
"""What has come with a head is rarely more than this, unless it is a body."""

GATHERED_BODY = 1024 * 1024
"""How much of a body that is no `LongBody` is gathered before the application is woken for it, and the peer waits."""


class Parting:
    """Whether the callers of a port are sent elsewhere: an answer is then the last on its connection."""

    def __init__(self) -> None:
        self.has_begun = False

    def __repr__(self) -> str:
        return f"<Parting: {'begun' if self.has_begun else 'not yet'}>"


class HttpProtocol(HttpToolsProtocol):
    """One connection.

    Attributes:
        pieces: How many times something has come by it.
    """

    _opening = b""

    def __init__(self, ids: RequestIds, parting: Parting, take_over: TakeOver | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._ids = ids
        self._parting = parting
        self._take_over = take_over
        self._requests = RequestParser(self)
        self.pieces = 0
        self._awaited = Awaited()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take a connection. What is written to it goes out at once, the parts of an answer together."""
        super().connection_made(transport)
        peer: socket.socket = transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        joined = JoinedWrites(transport, self.loop, self._requests)
        self.transport = joined
        self.flow = Turns(joined, self.pipeline)
        self._connection = Connection(joined, self.flow)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection, and tell whoever works for it."""
        super().connection_lost(exc)
        self._requests.close()
        self._connection.lost()

    def data_received(self, data: bytes) -> None:
        """Take in bytes, unless another protocol is to have them."""
        self.pieces += 1
        if self._take_over is not None:
            data = self._opening + data
            if len(data) < len(PREFACE) and PREFACE.startswith(data):
                self._opening = data
                return
            take_over, self._take_over = self._take_over, None
            if data.startswith(PREFACE):
                self._leave_to(take_over, data[len(PREFACE) :])
                return
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except TooLong:
            self._refuse(_HEAD_TOO_LONG)
        except UnknownCoding:
            self._refuse(_UNKNOWN_CODING)
        except HttpParserError:
            self._refuse(_NO_GRPC if self.parser.get_method() == _HTTP2 else _NO_HTTP)

    @property
    def wants_body(self) -> bool:
        """Whether somebody is to have the body that comes: nobody where its request is answered already."""
        return not self.cycle.response_complete

    def on_piece(self) -> None:
        """Take note that more of a long body has come."""
        self.pieces += 1
        self._unset_keepalive_if_required()

    def on_long_body(self, content: memoryview, behind: bytes) -> None:
        """Take a body that was received past the parser, and what has come behind it."""
        self.transport.set_protocol(self)
        self._take_long_body(content)
        if behind:
            self.data_received(behind)

    def on_response_complete(self) -> None:
        """Go on behind an answer. A connection that is idle keeps no body that nobody has asked for."""
        super().on_response_complete()
        if not self.wants_body:
            self.cycle.body = bytearray()

    def look(self, now: float, timeouts: RequestTimeouts) -> None:
        """Give up a peer that does not go on with what it has begun, or does not take what it has asked for.

        uvicorn gives up those that begin nothing more, but keeps what they have not taken without end.
        """
        if unsent := self.transport.get_write_buffer_size():
            if self._awaited.is_overdue(("answer", unsent), now, timeouts.answer_s):
                self.transport.abort()
            return
        cycle: RequestResponseCycle | None = cast("Any", self.cycle)
        is_answered = cycle is None or cycle.response_complete
        if self._requests.is_in_head:
            is_awaited = is_answered and self.timeout_keep_alive_task is None
            what, limit_s = ("head", cycle), timeouts.head_s
        else:
            is_awaited = not self.flow.read_paused and (cycle is None or not cycle.waiting_for_100_continue)
            what, limit_s = ("body", self.pieces), timeouts.body_s
        if not is_awaited or self.transport.is_closing():
            self._awaited.nothing()
        elif self._awaited.is_overdue(what, now, limit_s):
            may_answer = self.pieces > 0 and self._take_over is None and (self._requests.is_in_head or not is_answered)
            self._refuse(_TOO_SLOW if may_answer else b"")

    def part(self) -> None:
        """Have the answer that is due be the last on this connection, as later ones are once parting has begun.

        Of several that are, the last: what came before it has been sent for an answer, too. One whose head has gone
        cannot say any more that it is the last.
        """
        cycle: RequestResponseCycle | None = cast("Any", self.cycle)
        if cycle is not None and not cycle.response_started:
            cycle.keep_alive = False

    def on_headers_complete(self) -> None:
        """Begin a request, unless the answer before it was said to be the connection's last."""
        if self._connection.transport.is_to_be_closed:
            return
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        super().on_headers_complete()
        cycle = self.cycle
        cycle.default_headers = [*cycle.default_headers, self._ids.name(self.headers)]
        if self._parting.has_begun:
            cycle.keep_alive = False
        exchange: Exchanged = Exchange(cycle, self._connection)
        extensions: dict[str, Any] = {EXTENSION: exchange}
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
        """End a request. One that is answered already has kept the connection open until here, or from being idle."""
        cycle = self.cycle
        if self._connection.transport.is_to_be_closed:
            self.transport.close()
        elif not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _feed(self, data: bytes) -> None:
        """Read what has come; of a long body, what the parser need not see.

        The parser copies what it sees of a body: of much, it is shown the head first.
        """
        requests, rest = self._requests, memoryview(b"")
        if not requests.is_in_head:
            requests.feed(data)
            return
        if len(data) > _MUCH and (end := data.find(_HEAD_END)) >= 0:
            end += len(_HEAD_END)
            data, rest = data[:end], memoryview(data)[end:]
        requests.feed(data)
        if requests.is_in_body and (body := self._long_body()) is not None:
            rest = body.take(rest)
            if not body.is_whole:
                self.transport.set_protocol(body)
            else:
                self._take_long_body(body.hand_over())
                if rest:
                    self._feed(bytes(rest))
        elif rest:
            requests.feed(rest)

    def _long_body(self) -> LongBody | None:
        """Make room for the body that has just begun, if it is long, and put there what the parser has seen of it."""
        cycle: Any = self.cycle
        byte_size = stated_length(cycle.scope)
        if not LONG <= byte_size <= LONGEST:
            return None
        body = LongBody(self, byte_size)
        body.take(cycle.body)
        cycle.body = bytearray()
        return body

    def _take_long_body(self, content: memoryview) -> None:
        cycle: Any = self.cycle
        cycle.body = content
        self._requests.pass_body()

    def _leave_to(self, take_over: TakeOver, data: bytes) -> None:
        """Have another protocol speak on this connection from now on."""
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        self._requests.close()
        self.parser: Any = None  # it knows this protocol
        take_over(self._connection.transport.release(), data)

    def _refuse(self, answer: bytes) -> None:
        """Answer what is no request, and take no more: requests before it are answered first."""
        self._requests.close()
        cycle: RequestResponseCycle | None = cast("Any", self.cycle)
        if cycle is None or cycle.response_complete:
            self._end(answer)
        elif not cycle.more_body:
            cycle.on_response = partial(self._end, answer)
        elif self.pipeline and self.pipeline[0][0] is cycle:
            # It is the request that breaks off, and waits for its turn.
            application: Any = partial(_break_off, cycle, partial(self._end, answer))
            self.pipeline[0] = cycle, application
        else:
            self._end(b"" if cycle.response_started else answer)

    def _end(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()


async def _break_off(
    cycle: RequestResponseCycle, end: Callable[[], None], _scope: Scope, _receive: Receive, _send: Send
) -> None:
    """End a connection where a request should be worked for, of which not all can come."""
    cycle.disconnected = True
    end()
