"""Finds streams that wait for a peer which does not go on. Time is an argument."""

from __future__ import annotations

from collections.abc import Iterable

from inferwire_server.transport.http2.stream import Stream
from inferwire_server.transport.stall_timer import StallTimer


class Stalls:
    """How far a connection's streams that wait for the peer had come, and since when."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Stream, StallTimer] = {}

    def __repr__(self) -> str:
        return f"<Stalls: {len(self._waiting)} streams wait for their peer>"

    def found(self, streams: Iterable[Stream], taken: int, now: float, limit_s: float) -> list[Stream]:
        """Give the streams that have come no further at any look for `limit_s`.

        `taken` is how many bytes of data the peer has taken until now, on all streams together.
        """
        before, self._waiting = self._waiting, {}
        stalled: list[Stream] = []
        for stream in streams:
            if (come := _how_far(stream, taken)) is not None:
                timer = self._waiting[stream] = before.get(stream) or StallTimer()
                if timer.is_overdue(come, now, limit_s):
                    stalled.append(stream)
        return stalled


def _how_far(stream: Stream, taken: int) -> tuple[int, int] | None:
    """Say how far a stream that waits for the peer has come; None if it does not wait."""
    if stream.unsent:
        # A stream with room waits for its turn. Without room, its data may have yet to arrive: the peer can make room
        # only after that.
        is_behind_others = stream.window > 0 or taken < stream.sent_at
        return stream.received + stream.sent_at, taken if is_behind_others else 0
    return (stream.received, 0) if stream.receiver.awaits_data else None
