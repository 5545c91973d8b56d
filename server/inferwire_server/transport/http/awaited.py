"""How long a peer is waited for at the HTTP port. Time is an argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    """How long a peer is waited for, in seconds.

    Attributes:
        head_s: For all of a head, or of what says that it is a session's connection.
        body_s: For any more of a body.
        end_s: For any more of a body, while the server ends.
        answer_s: For it to take any more of an answer.
        look_s: How often it is looked whether that has passed.
    """

    head_s: float = 30.0
    body_s: float = 60.0
    end_s: float = 1.0
    answer_s: float = 60.0
    look_s: float = 1.0


class Awaited:
    """What is waited for, and since when."""

    __slots__ = ("_since", "_what")

    def __init__(self) -> None:
        self._what: object = None
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<Awaited: {'nothing' if self._what is None else f'since {self._since:.1f}'}>"

    def nothing(self) -> None:
        """Record that it is not the peer who is waited for."""
        self._what = None

    def is_overdue(self, what: object, now: float, limit_s: float) -> bool:
        """Whether this same thing has been waited for, at every look, for at least the limit."""
        if self._what is None or self._what != what:
            self._what, self._since = what, now
            return False
        return now - self._since >= limit_s
