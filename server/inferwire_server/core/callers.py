"""Who a caller is, for turns among callers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple


class Caller(NamedTuple):
    """A caller, made once for a session or a connection. Callers that are equal are one, and share its turns.

    Attributes:
        kind: What tells it from others: "session", "connection" or "host".
        identity: A value that no other caller of its kind has. It is kept with the caller's jobs, and so is small.
    """

    kind: str
    identity: Hashable

    def __repr__(self) -> str:
        return f"<Caller: a {self.kind}>"


def of_session() -> Caller:
    """Make the caller for a new session, which stays the same when the session goes on with another connection."""
    return Caller("session", object())


def of_connection() -> Caller:
    """Make the caller for a new connection."""
    return Caller("connection", object())


def at_host(host: str) -> Caller:
    """Give the caller that all connections from a host share."""
    return Caller("host", host)
