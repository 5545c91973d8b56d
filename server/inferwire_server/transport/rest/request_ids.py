"""An id for every request: the caller's own where it gave one, else a new one, on every answer."""

from __future__ import annotations

from itertools import count
from secrets import token_hex

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"
_LONGEST = 128


class RequestIds:
    """Middleware that adds the id to each answer's headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # Asking the system for randomness each time costs as much as parsing a request.
        self._prefix = token_hex(4).encode()
        self._numbers = count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _given(scope["headers"]) or b"%b%08x" % (self._prefix, next(self._numbers))

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (HEADER, request_id)]
            await send(message)

        await self._app(scope, receive, send_with_id)


def _given(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """Give the caller's id, unless it is something one would not want in a log."""
    for name, value in headers:
        if name == HEADER:
            text = value.decode("latin-1")
            return value if 0 < len(value) <= _LONGEST and text.isascii() and text.isprintable() else None
    return None
