"""A request and its answer as an application sees them: what it may do with them that ASGI has no words for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from starlette.types import Scope, Send

from inferwire_server.core.callers import Caller
from inferwire_server.errors import bug

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Headers as they are sent."""

Body: TypeAlias = bytes | bytearray | memoryview
"""What a request has behind its head."""

EXTENSION = "inferwire.exchange"
"""The name among the scope's extensions of what gives the exchange when it is called."""


class CallerConnection(Protocol):
    """Where a caller is answered, as an application sees it."""

    @property
    def caller(self) -> Caller:
        """Who it is for turns among callers."""
        ...

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Have this called when the caller is gone, until `unwatch`; ClientDisconnect if it is gone already."""
        ...

    def unwatch(self) -> None:
        """Stop watching."""
        ...


class Exchanged(Protocol):
    """A request and its answer, as an application sees them. The caller may be with another worker."""

    @property
    def request_id(self) -> str:
        """Its id, which the answer has."""
        ...

    @property
    def connection(self) -> CallerConnection:
        """Where the request has come from."""
        ...

    async def wait_for_body(self) -> None:
        """Wait until a body whose length was stated is complete, or its caller is gone."""
        ...

    def take_body(self) -> Body | None:
        """Take the body of the request if it is complete; None if some of it is still to be received."""
        ...

    def takes(self, send: Send) -> bool:
        """Whether `send` leads straight to the connection: otherwise something in between wants to see the events."""
        ...

    async def answer(self, headers: Headers, body: bytes) -> None:
        """Answer 200 with a whole body, where it `takes` events."""
        ...


def exchange_of(scope: Scope) -> Exchanged:
    """Give the exchange that a request is part of.

    The scope has a reference to it that may be weak: the exchange keeps the scope.
    """
    exchange: Exchanged | None = scope["extensions"][EXTENSION]()
    if exchange is None:
        raise bug("a request is asked about whose connection is done with it")
    return exchange


def host_of(scope: Scope) -> str:
    """Give the host that a request comes from; nothing where it comes over a Unix socket."""
    host, _ = scope["client"] or ("", None)
    return host


def where_of(scope: Scope) -> dict[str, str]:
    """Say in a log which request is meant: its path as it came, and the id that its answer has.

    Decoded, a path may have characters that a terminal obeys.
    """
    return {"path": scope["raw_path"].decode("ascii"), "request_id": exchange_of(scope).request_id}
