"""HTTP/1.1 as uvicorn speaks it, for requests as our own parser reads them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, cast
from urllib.parse import unquote
from weakref import ref

from httptools import HttpParserError, parse_url
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from inferwire_server.core.callers import at_host
from inferwire_server.transport.connection_age import Ages
from inferwire_server.transport.http.connection import BoundedFlow, Connection
from inferwire_server.transport.http.cycle import Cycle
from inferwire_server.transport.http.exchange import EXTENSION, Exchanged
from inferwire_server.transport.http.joined_writes import JoinedWrites
from inferwire_server.transport.http.long_body import LONG, LONGEST, LongBody
from inferwire_server.transport.http.refusals import NO_TLS, SHUTTING_DOWN, TOO_SLOW, refusal_of
from inferwire_server.transport.http.request_headers import stated_length
from inferwire_server.transport.http.request_parser import RequestParser, Unfit
from inferwire_server.transport.http.request_timeouts import RequestTimeouts
from inferwire_server.transport.low_water import low_water_of
from inferwire_server.transport.request_ids import RequestIds
from inferwire_server.transport.stall_timer import StallTimer
from inferwire_server.transport.turns import Turns

_CACHED = (b"GET", b"HEAD")
"""The methods whose answers proxies may give to others for a while, unless they are told not to: Varnish does so for
two minutes, with what holds for one moment, such as whether the server is ready."""

_NO_STORE = (b"cache-control", b"no-store")

_HEAD_END = b"\r\n\r\n"

_MUCH = 16 * 1024
"""What has come with a head is rarely more than this, unless it is a body."""

_PIECE = 8 * 1024
"""How much is parsed at once of what may be many requests: each takes fifty times the bytes of its head."""

_MANY_PARTS = 1024
"""How many parts of bodies are taken at once. A chunk may be one byte, and a megabyte come in one turn of the loop."""


@dataclass(slots=True)
class HttpSurroundings:
    """What the connections of a port share.

    Attributes:
        settings: uvicorn's.
        add: Called with each connection that is opened.
        lose: Called with each that is closed.
        state: The tasks that work for them, and the headers of every answer, as uvicorn keeps them.
        ids: Gives requests their ids.
        ages: How old connections may become: the answer to a request that comes after that is the last on its
            connection.
        turns: When a connection goes on whose body has come in more parts than are taken at once.
        is_parting: Whether callers are sent elsewhere: an answer is then the last on its connection.
    """

    settings: Config
    add: Callable[[HttpProtocol], None]
    lose: Callable[[HttpProtocol], None]
    ages: Ages
    state: ServerState = field(default_factory=ServerState)
    ids: RequestIds = field(default_factory=RequestIds)
    turns: Turns = field(default_factory=Turns)
    is_parting: bool = False

    def __repr__(self) -> str:
        return f"<HttpSurroundings: {len(self.state.tasks)} requests, {'parting' if self.is_parting else 'staying'}>"


class HttpProtocol(HttpToolsProtocol):
    """One connection.

    Attributes:
        age: When it is old.
        pieces: How many times data was received on it.
        cycle: The newest request, which may wait for those before it; nothing before the first.
    """

    cycle: Cycle
    parser: Any  # uvicorn's, which is None once the connection is lost: nothing is parsed then

    def __init__(self, around: HttpSurroundings) -> None:
        super().__init__(around.settings, around.state, app_state={})
        self._around = around
        self._requests = RequestParser(self)
        self.age = around.ages.begin(monotonic())
        self.pieces = 0
        self._stall = StallTimer()
        self._is_leaving = False
        # What was received behind requests that wait for their turn, or behind as many parts of a body as are taken at
        # once. It is not parsed yet.
        self._behind = bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take a connection. What is written to it goes out at once, the parts of an answer together."""
        super().connection_made(transport)
        peer: socket.socket = transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        joined = JoinedWrites(transport, self.loop, self._requests)
        self.transport = joined
        self.flow = BoundedFlow(joined, self.pipeline, self._behind)
        host, _ = self.client or ("", None)
        self._connection = Connection(joined, self.flow, at_host(host))
        self._around.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection, and tell the request that watches it."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._around.turns.forget(self)
        self._drop_waiting()
        self._requests.close()
        self._connection.lost()
        self._around.lose(self)

    def data_received(self, data: bytes) -> None:
        """Take in bytes."""
        self.pieces += 1
        if self._behind:
            self._keep_behind(data)
            return
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except (Unfit, HttpParserError, MemoryError) as error:
            self._refuse(refusal_of(error, self.parser))

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride] - asyncio asks for it
        """Close, unless an answer is due for which no work would have to be cancelled. With TLS, always close.

        TLS has one end for both directions.
        """
        due = self._due()
        return due is not None and due.has_whole_body and self.scheme == "http" and self._connection.end()

    @property
    def wants_body(self) -> bool:
        """Whether the body that comes is wanted: not if its request is answered already."""
        return not self.cycle.is_answered

    def on_piece(self) -> None:
        """Record that more of a long body was received."""
        self.pieces += 1
        self._unset_keepalive_if_required()

    def on_long_body(self, content: memoryview, behind: bytes) -> None:
        """Take a body that was received past the parser, and the bytes that came behind it."""
        self.transport.set_protocol(self)
        self._take_long_body(content)
        if behind:
            self.data_received(behind)

    def on_response_complete(self) -> None:
        """Go on after an answer. Drop a body that the application did not ask for: an idle connection keeps none.

        After an answer that was said to be the last, none of the requests that wait is worked for, whether all of the
        newest has come or not: their peer was told to send them elsewhere.
        """
        if self._connection.transport.is_to_be_closed:
            self._drop_waiting()
        super().on_response_complete()
        self.cycle.drop_body()
        if self._behind:
            self.go_on()
        if self._connection.has_ended and self._due() is None:
            self.transport.close()

    def go_on(self) -> None:
        """Take what has come behind what was taken, unless requests still wait for their turn; read on behind that."""
        if not self._behind or self.pipeline or self.transport.is_closing():
            return
        behind = bytes(self._behind)
        self._behind.clear()
        self.data_received(behind)
        if not self.cycle.has_much_body:
            self.flow.resume_reading()

    def leave(self) -> None:
        """Close the connection: after the answer if one is due, or will be as a head has begun, else at once."""
        self._is_leaving = True
        will_be_due = self._requests.has_begun and self._requests.is_in_head
        if self._due() is not None or not will_be_due:
            self.shutdown()

    def cut_off(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def wait_anew(self) -> None:
        """Wait for the peer as if it had gone on just now."""
        self._stall.stop()

    def look(self, now: float, timeouts: RequestTimeouts) -> None:
        """Give up a peer that does not go on with a request that it has begun, or does not take its answer.

        uvicorn gives up peers that begin no further request, but waits without end for those that take no answer. When
        the server ends, this does not wait for a peer that has everything and should close TLS as well: an idle client
        does not read that.
        """
        if unsent := self.transport.get_write_buffer_size():
            if self._stall.is_overdue(("answer", unsent), now, timeouts.answer_s):
                self.transport.abort()
            return
        if self._is_leaving and self.transport.is_closing():
            _read_no_more(self.transport)
            return
        if not self._is_awaited() or self.transport.is_closing():
            self._stall.stop()
            return
        is_in_head = self._requests.is_in_head
        if self._is_leaving:
            progress, limit_s = ("rest", self.pieces), timeouts.end_s
        elif is_in_head:
            progress, limit_s = ("head", self.cycle), timeouts.head_s
        else:
            progress, limit_s = ("body", self.pieces), timeouts.body_s
        if self._stall.is_overdue(progress, now, limit_s):
            may_answer = self.pieces > 0 and (is_in_head or self._due() is not None)
            refusal = SHUTTING_DOWN if self._is_leaving else TOO_SLOW
            self._refuse(refusal if may_answer else b"")

    def part(self) -> None:
        """Have the answer that is due be the last on this connection, as later ones are once parting has begun.

        If several are due, it is the last of them: the requests before it are to be answered, too. An answer whose head
        is sent cannot say any more that it is the last.
        """
        if (due := self._due()) is not None:
            due.close_after_answer()

    def on_headers_complete(self) -> None:
        """Begin a request, unless the answer before it was said to be the connection's last."""
        if self._connection.transport.is_to_be_closed:
            return
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        application, before = cast("Any", self).app, self.cycle
        self.cycle = self._begin_cycle()  # pyright: ignore[reportIncompatibleVariableOverride] - all are made here
        if not before or before.is_answered:
            self._start_asgi_task(self.cycle, application)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, application))

    def on_body(self, body: bytes) -> None:
        """Take in more of a body."""
        self.cycle.append(body)

    def on_message_complete(self) -> None:
        """End a request. If it is answered already, the connection has waited for this to be closed, or to be idle."""
        if self._connection.transport.is_to_be_closed:
            self.transport.close()
        elif not self.cycle.end_body():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _drop_waiting(self) -> None:
        while self.pipeline:
            waiting, _ = self.pipeline.pop()
            cast("Cycle", waiting).leave_unanswered()

    def _due(self) -> Cycle | None:
        """Give the newest request if its answer is still due."""
        return self.cycle if self.cycle and not self.cycle.is_answered else None

    def _is_awaited(self) -> bool:
        """Whether the peer is waited for: to go on with a request, or to begin its first."""
        if self._requests.is_in_head:
            return self._due() is None and (self._requests.has_begun or self.timeout_keep_alive_task is None)
        return not self.flow.read_paused and not self.cycle.waits_to_continue

    def _begin_cycle(self) -> Cycle:
        """Record the request whose head has come, as uvicorn does for requests of its own parser."""
        scope: Any = self.scope
        method, version, url = self.parser.get_method(), self.parser.get_http_version(), parse_url(self.url)
        raw_path: bytes = url.path or b"/"
        path = raw_path.decode("ascii")
        scope["method"] = method.decode("ascii")
        scope["http_version"] = version
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = url.query or b""
        said = [*self.server_state.default_headers, self._around.ids.name(self.headers)]
        if method in _CACHED:
            said.append(_NO_STORE)
        cycle = Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=said,
            message_event=asyncio.Event(),
            # HTTP/1.0 knows no answer before the answer.
            expect_100_continue=self.expect_100_continue and version != "1.0",
            keep_alive=not (self._around.is_parting or self.age.is_old(monotonic()))
            and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        cycle.connection = self._connection
        # The scope refers to the cycle weakly: else each would keep the other until the garbage collector runs.
        exchange: ref[Exchanged] = ref(cycle)
        scope["extensions"] = {EXTENSION: exchange}
        return cycle

    def _feed(self, data: bytes) -> None:
        """Parse what was received, but not a long body: that goes to its own buffer.

        The parser copies every byte of a body that it is given. So if there is much data, it is given the head alone
        first, which says whether the body is a long one.
        """
        requests, rest = self._requests, memoryview(b"")
        if not requests.is_in_head:
            self._feed_pieces(data)
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
            self._feed_pieces(rest)

    def _feed_pieces(self, data: bytes | memoryview) -> None:
        """Parse what may be many requests, until some of them have to wait, or many parts of a body."""
        last_part = self._requests.parts + _MANY_PARTS
        for at in range(0, len(data), _PIECE):
            if at and self.pipeline:
                self._keep_behind(data[at:])
                return
            if self._requests.parts >= last_part:
                self._keep_behind(data[at:])
                self._around.turns.wait(self)
                return
            self._requests.feed(data[at : at + _PIECE])

    def _keep_behind(self, data: bytes | memoryview) -> None:
        self._behind += data
        self.flow.pause_reading()

    def _long_body(self) -> LongBody | None:
        """Make room for the body that has just begun, if it is long, and put there what the parser has seen of it."""
        byte_size = stated_length(self.cycle.scope)
        if not LONG <= byte_size <= LONGEST:
            return None
        try:
            body = LongBody(self, byte_size, low_water_of(self.transport))
        except MemoryError:
            # The parser takes it in pieces then, and the application is refused that gathers them in vain.
            return None
        body.take(self.cycle.begin_long_body())
        return body

    def _take_long_body(self, content: memoryview) -> None:
        self.cycle.put_long_body(content)
        self._requests.pass_body()

    def _refuse(self, answer: bytes) -> None:
        """Answer what is no request, and take no more: requests before it are answered first."""
        self._requests.close()
        due, end = self._due(), partial(self._end, answer)
        if due is None:
            end()
        elif due.has_whole_body:
            due.then(end)
        elif self.pipeline and self.pipeline[0][0] is due:
            # The request that breaks off still waits for its turn: the connection ends when that comes.
            application: Any = due.breaking_off(end)
            self.pipeline[0] = due, application
        else:
            self._end(answer if due.may_be_refused else b"")

    def _end(self, answer: bytes) -> None:
        if answer:
            status, rest = answer.split(b"\r\n", 1)
            date = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
            self.transport.write(b"%b\r\n%b%b" % (status, date, rest))
        self.transport.close()


class PlainHttpProtocol(HttpProtocol):
    """A connection to a port with TLS whose peer speaks none. It is told so, and nothing else."""

    def data_received(self, data: bytes) -> None:
        """Take in nothing."""
        del data
        self._refuse(NO_TLS)


def _read_no_more(transport: asyncio.Transport) -> None:
    """Have a connection read its peer's end now. Data on its way to the peer is still sent: `abort` would drop it."""
    open_still: socket.socket | None = transport.get_extra_info("socket")
    if open_still is not None:
        with suppress(OSError), open_still.dup() as itself:
            itself.shutdown(socket.SHUT_RD)
