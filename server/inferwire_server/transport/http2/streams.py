"""The streams of one connection: which are open, which only the peer has not ended yet, and which may begin at all."""

from __future__ import annotations

from collections.abc import Callable

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode
from inferwire_server.transport.http2.outflow import Outflow
from inferwire_server.transport.http2.stream import Stream

MOST_STREAMS = 10_000
"""How many streams a peer may have open."""

_MOST_UNHEARD = 1000
"""How many streams may be half open, because this side has ended them and the peer has not."""


class Streams:
    """A connection's streams, by their numbers.

    Attributes:
        open: The streams that this side has not ended.
        last_begun: The highest number of a stream that has begun.
        last_taken: The highest number of a stream that is taken: the largest there is, until this side leaves.
    """

    __slots__ = ("_on_over", "_outflow", "_unheard", "last_begun", "last_taken", "open")

    def __init__(self, outflow: Outflow, on_over: Callable[[], object]) -> None:
        self._outflow = outflow
        self._on_over = on_over
        self._unheard: dict[int, None] = {}
        self.open: dict[int, Stream] = {}
        self.last_begun = 0
        self.last_taken = frames.LARGEST_STREAM

    def __repr__(self) -> str:
        return f"<Streams: {len(self.open)} open, {len(self._unheard)} half open>"

    @property
    def ending(self) -> int:
        """How many are complete but for the peer, which has not taken all of their answers."""
        return sum(stream.is_ending for stream in self.open.values())

    def begin(self, number: int) -> Stream | None:
        """Open a stream; None if this side has left, or if too many are open, which the peer is told."""
        self.last_begun = number
        if number > self.last_taken:
            return None
        if len(self.open) >= MOST_STREAMS:
            self._outflow.emit(frames.rst_stream(number, ErrorCode.REFUSED_STREAM))
            return None
        stream = self.open[number] = Stream(number, self._outflow, self._forget)
        return stream

    def refuse(self, number: int) -> None:
        """Open no stream, because its headers make no request, and tell the peer."""
        self.last_begun = number
        if number <= self.last_taken:
            self._outflow.emit(frames.rst_stream(number, ErrorCode.PROTOCOL_ERROR))

    def take_no_more(self) -> None:
        """Take no streams but those that have begun."""
        self.last_taken = self.last_begun

    def find(self, number: int) -> Stream | None:
        """Give an open stream; None for one that is over.

        Raises:
            ConnectionFailed: PROTOCOL_ERROR for one that has not begun, or for stream 0.
        """
        if not 0 < number <= self.last_begun:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"stream {number} has not begun")
        return self.open.get(number)

    def hear(self, number: int) -> None:
        """Record that the peer sends more on a stream that this side has ended, and tell it once that this is ignored.

        It is not told before: some clients would take a reset for a failure of what they are just sending, and not look
        at the answer.
        """
        if number in self._unheard:
            self._hush(number)

    def hear_end(self, number: int) -> None:
        """Record that the peer, too, has ended a stream."""
        self._unheard.pop(number, None)

    def give_up(self, stream: Stream) -> None:
        """End a stream that the peer has given up."""
        del self.open[stream.id]
        stream.end()

    def lose(self) -> None:
        """End all streams: nothing can be sent on them any more."""
        streams, self.open = tuple(self.open.values()), {}
        for stream in streams:
            stream.end()

    def _forget(self, stream: Stream) -> None:
        """Let go of a stream that this side has ended. What the peer still sends on it is noticed by `hear`."""
        del self.open[stream.id]
        if not stream.has_peer_ended:
            self._unheard[stream.id] = None
            if stream.credit <= 0:
                # The peer waits to be allowed to send more.
                self._hush(stream.id)
            elif len(self._unheard) > _MOST_UNHEARD:
                self._hush(next(iter(self._unheard)))
        self._on_over()

    def _hush(self, number: int) -> None:
        del self._unheard[number]
        self._outflow.emit(frames.rst_stream(number, ErrorCode.NO_ERROR))
