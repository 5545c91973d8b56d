"""One stream of a connection: a call, with what is sent each way and how much may be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS, ErrorCode
from inferwire_server.transport.http2.outflow import Outflow, Piece

STREAM_WINDOW = 1024 * 1024
"""How many bytes a peer may send on a stream before `expect` allows it more."""


class Receiver(Protocol):
    """What takes the events of a stream."""

    @property
    def awaits_data(self) -> bool:
        """Whether the peer is waited for: it has not sent all that it is to send without a pause, and may send it."""
        ...

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        """Take data, which may be nothing if it is the last."""
        ...

    def take_end(self) -> None:
        """Be told that nothing more comes: the peer has given the stream up or is gone, or this side has reset it."""
        ...

    def take_room(self) -> None:
        """Be told that everything that waited has been sent."""
        ...

    def take_stall(self) -> None:
        """End the stream: the peer has not gone on for long, though it is waited for."""
        ...


class Limit(Protocol):
    """A limit of a stream's time, which is set where the time is known."""

    def cancel(self) -> object:
        """Let the stream be."""
        ...


class Stream:
    """A stream, from its first headers to its end.

    Attributes:
        id: Its number.
        receiver: What takes its events.
        outflow: The way out that it shares with the connection's other streams.
        window: How many bytes of data the peer takes now.
        credit: How many bytes the peer may send now.
        unsent: How many bytes of data wait for the peer to take them.
        announced: How many bytes of data are still to come, if the peer has said how many it sends.
        limit: What limits its time, if anything does. It is cancelled when the stream is over, and keeps nothing then.
        sent_at: How many bytes had been sent on all streams when this one last sent data that had waited.
        has_peer_ended: Whether the peer has sent all.
        is_over: Whether nothing more is sent.
    """

    __slots__ = (
        "_allowed",
        "_on_over",
        "_queue",
        "_trailers",
        "announced",
        "credit",
        "has_peer_ended",
        "id",
        "is_over",
        "limit",
        "outflow",
        "receiver",
        "sent_at",
        "unsent",
        "window",
    )

    receiver: Receiver

    def __init__(self, number: int, outflow: Outflow, on_over: Callable[[Stream], object]) -> None:
        self.id = number
        self.window = outflow.initial_window
        self.credit = self._allowed = STREAM_WINDOW
        self.announced: int | None = None
        self.limit: Limit | None = None
        self.unsent = self.sent_at = 0
        self.has_peer_ended = False
        self.is_over = False
        self.outflow = outflow
        self._on_over = on_over
        self._queue: deque[Piece] | None = None
        self._trailers: bytes | None = None

    def __repr__(self) -> str:
        return f"<Stream {self.id}: {'over' if self.is_over else 'open'}, {self.unsent} bytes wait>"

    @property
    def received(self) -> int:
        """How many bytes of data were received."""
        return self._allowed - self.credit

    @property
    def is_ending(self) -> bool:
        """Whether the answer is complete, and some of it waits for the peer to take it."""
        return self._trailers is not None and not self.is_over

    def is_as_announced(self, size: int, *, is_last: bool) -> bool:
        """Count data that has come of which the peer has said how much there is; say whether that may be so still."""
        self.announced = left = (self.announced or 0) - size
        return left == 0 if is_last else left >= 0

    def answer(self, headers: bytes, pieces: Sequence[Piece], size: int, trailers: bytes) -> None:
        """Send a whole answer: headers, data of so many bytes, trailers. The stream is over with it."""
        if size > self.window or not self.outflow.has_room(size):
            self.start(headers)
            self.write(pieces, size)
            self.finish(trailers)
            return
        self.window -= size
        self.outflow.window -= size
        number = self.id
        self.outflow.emit(
            frames.head(HEADERS, END_HEADERS, number, len(headers)),
            headers,
            frames.head(DATA, 0, number, size),
            *pieces,
            frames.head(HEADERS, END_HEADERS | END_STREAM, number, len(trailers)),
            trailers,
        )
        self._over()

    def start(self, headers: bytes) -> None:
        """Send the headers of an answer."""
        self.outflow.emit_headers(self.id, 0, headers)

    def write(self, pieces: Sequence[Piece], size: int) -> None:
        """Send data of `size` bytes, or have it wait."""
        if self._queue is None:
            self._queue = deque()
        self._queue.extend([memoryview(piece) for piece in pieces if len(piece)])
        self.unsent += size
        self.outflow.unsent += size
        self.outflow.wait(self)
        self.outflow.flush()

    def finish(self, trailers: bytes) -> None:
        """Send trailers once all data is sent. The stream is over with them."""
        self._trailers = trailers
        if not self.unsent:
            self._finish(trailers)

    def abandon(self, trailers: bytes) -> None:
        """Send trailers instead of the data that waits. The stream is over with them."""
        self._finish(trailers)

    def reset(self, code: ErrorCode) -> None:
        """Give the stream up. Its receiver is told, as if the peer had given it up."""
        self._reset(code)
        self.receiver.take_end()

    def refuse(self) -> None:
        """Give the stream up before it has a receiver: the peer may begin it again."""
        self._reset(ErrorCode.REFUSED_STREAM)

    def expect(self, size: int) -> None:
        """Let the peer send `size` bytes, if it may not already."""
        more = min(size, frames.LARGEST_WINDOW) - self.credit
        if more > 0 and not self.has_peer_ended and not self.is_over:
            self.credit += more
            self._allowed += more
            self.outflow.emit(frames.window_update(self.id, more))

    def send_some(self) -> bool:
        """Send a frame of the data that waits, if the peer takes it; say whether it would take more on this stream."""
        room = min(self.window, self.outflow.window, self.outflow.most_frame_bytes, self.unsent)
        if room <= 0 or self._queue is None:
            return False
        pieces = _taken(self._queue, room)
        self.window -= room
        self.outflow.window -= room
        self.unsent -= room
        self.outflow.count_fewer(room)
        self.sent_at = self.outflow.sent
        self.outflow.emit(frames.head(DATA, 0, self.id, room), *pieces)
        if not self.unsent:
            if self._trailers is not None:
                self._finish(self._trailers)
            else:
                self.receiver.take_room()
        return self.unsent > 0 and self.window > 0

    def end(self) -> None:
        """Let go of the stream, because the peer has given it up or is gone."""
        self._let_go()
        self.receiver.take_end()

    def _reset(self, code: ErrorCode) -> None:
        self.outflow.emit(frames.rst_stream(self.id, code))
        self.has_peer_ended = True
        self._over()

    def _finish(self, trailers: bytes) -> None:
        self.outflow.emit_headers(self.id, END_STREAM, trailers)
        self._over()

    def _over(self) -> None:
        self._let_go()
        self._on_over(self)

    def _let_go(self) -> None:
        self.is_over = True
        self._queue = None
        unsent, self.unsent = self.unsent, 0
        if unsent:
            self.outflow.count_fewer(unsent)
        self.outflow.forget(self)
        if self.limit is not None:
            self.limit.cancel()


def _taken(queue: deque[Piece], size: int) -> list[Piece]:
    """Take `size` bytes off the queue."""
    taken: list[Piece] = []
    while size:
        piece = queue.popleft()
        if len(piece) > size:
            queue.appendleft(piece[size:])
            piece = piece[:size]
        taken.append(piece)
        size -= len(piece)
    return taken
