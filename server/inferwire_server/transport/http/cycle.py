"""The state of one request and its answer: uvicorn's record of them, and all that is done to it beyond ASGI.

Nothing else knows how uvicorn names what it records of a request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from inferwire_server.transport.http.connection import Connection
from inferwire_server.transport.http.exchange import Body, Headers
from inferwire_server.transport.http.long_body import LONG
from inferwire_server.transport.http.request_headers import stated_length
from inferwire_server.transport.request_ids import HEADER

GATHERED_BODY = 1024 * 1024
"""How much of a body that is no `LongBody` is gathered before the application is woken for it, and the peer waits."""


class Cycle(RequestResponseCycle):
    """One request and its answer; what `Exchanged` says of it is for the application, the rest for the protocol.

    Attributes:
        connection: The connection that it came on.
    """

    connection: Connection
    scope: Any
    body: Any
    """uvicorn gathers it in a bytearray; a long body is a view of the buffer that it was received in."""

    @property
    def default_headers(self) -> Headers:  # pyright: ignore[reportIncompatibleVariableOverride] - uvicorn sets it once
        """What every answer has. A peer of HTTP/1.0 sends its next request only if it is told that it may."""
        if self.keep_alive and self.scope["http_version"] == "1.0":
            return [*self._default_headers, (b"connection", b"keep-alive")]
        return self._default_headers

    @default_headers.setter
    def default_headers(self, headers: Headers) -> None:
        self._default_headers = headers

    @property
    def disconnected(self) -> bool:
        """Whether the caller is gone. uvicorn sets this for a connection's newest request alone."""
        return self._is_given_up or self.connection.is_lost

    @disconnected.setter
    def disconnected(self, value: bool) -> None:
        self._is_given_up = value

    @property
    def request_id(self) -> str:
        """Its id, which the answer has."""
        return dict(self.default_headers)[HEADER].decode()

    @property
    def is_answered(self) -> bool:
        """Whether all of the answer is written."""
        return self.response_complete

    @property
    def has_whole_body(self) -> bool:
        """Whether the body is complete."""
        return not self.more_body

    @property
    def has_much_body(self) -> bool:
        """Whether so much of the body is gathered that its peer waits until the application takes it."""
        return len(self.body) >= GATHERED_BODY

    @property
    def may_be_refused(self) -> bool:
        """Whether an error can still be its answer, because nothing of another answer is written."""
        return not self.response_started

    @property
    def waits_to_continue(self) -> bool:
        """Whether its caller sends no body before it is told to continue."""
        return self.waiting_for_100_continue

    def append(self, body: bytes) -> None:
        """Gather more of the body. uvicorn would stop reading at each 64 KiB until the application has had its turn."""
        if self.response_complete:
            return
        self.body += body
        if len(self.body) >= GATHERED_BODY:
            self.flow.pause_reading()
            self.message_event.set()

    def begin_long_body(self) -> Body:
        """Give what has been gathered of a body whose rest is received elsewhere."""
        begun, self.body = self.body, bytearray()
        return begun

    def put_long_body(self, content: Body) -> None:
        """Take a body that was received elsewhere. It is not ended by that."""
        self.body = content

    def end_body(self) -> bool:
        """Tell the application that the body is complete; False if it has answered already."""
        if self.response_complete:
            return False
        self.more_body = False
        self.message_event.set()
        return True

    def drop_body(self) -> None:
        """Drop a body that the application did not ask for before it answered."""
        if self.response_complete:
            self.body = bytearray()

    def close_after_answer(self) -> None:
        """Have the answer be the last on its connection, unless its head is sent and does not say so."""
        if not self.response_started:
            self.keep_alive = False

    def then(self, go_on: Callable[[], None]) -> None:
        """Have this called after the answer, in place of going on with the connection."""
        self.on_response = go_on

    def leave_unanswered(self) -> None:
        """Have no answer be due to it: its connection ends before its turn comes. Its way back is cut, too.

        That would keep the connection, which refers to its newest request.
        """
        self.response_complete = True
        self.then(_nothing)

    def breaking_off(self, end: Callable[[], None]) -> ASGIApp:
        """Give what is run for a request that breaks off, in place of the application: it ends the connection."""

        async def application(_scope: Scope, _receive: Receive, _send: Send) -> None:
            self.disconnected = True
            end()

        return application

    async def wait_for_body(self) -> None:
        """Wait until a body whose length was stated is complete, or its caller is gone."""
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        while self.more_body and not (self.disconnected or self.response_complete):
            self.flow.resume_reading()
            await self.message_event.wait()
            self.message_event.clear()

    def take_body(self) -> Body | None:
        """Take the body if it is complete; None if some of it is still to be received."""
        if self.more_body or self.disconnected:
            return None
        body, self.body = self.body, bytearray()
        self.message_event.clear()
        return body

    def takes(self, send: Send) -> bool:
        """Whether `send` leads straight to the connection: otherwise something in between wants to see the events."""
        return send == self.send

    async def send(self, message: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - any event is taken
        """Take an event of the answer."""
        if self.more_body:
            self._answer_early()
        await super().send(message)

    async def answer(self, headers: Headers, body: bytes) -> None:
        """Answer 200 with a whole body, written at once. The headers say its length, and nothing that a peer has sent.

        It ends the exchange as the last of ASGI's events does.
        """
        if self.flow.write_paused:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.more_body:
            self._answer_early()
        self.response_started = self.response_complete = True
        lines = [b"%b: %b\r\n" % header for header in (*self.default_headers, *headers)]
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        self.transport.writelines((b"HTTP/1.1 200 OK\r\n%b\r\n" % b"".join(lines), body))
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _answer_early(self) -> None:
        """Have an answer before the end of the body be the connection's last if the rest may not come, or is long.

        A caller that waits to be asked for its body may leave it out and send its next request, which would be taken
        for the body. Callers may also leave out the rest of a long body: HAProxy then sends another caller's request in
        its place.
        """
        if self.waiting_for_100_continue or not 0 < stated_length(self.scope) < LONG:
            self.waiting_for_100_continue = False
            self.close_after_answer()


def _nothing() -> None:
    """Do nothing."""
