"""What is sent on one connection, and what waits until its peer takes more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.header_blocks import NOTHING_REMEMBERED

Piece: TypeAlias = bytes | memoryview

MOST_UNSENT_BYTES = 256 << 20
"""How many bytes of data may wait for the peer before it is clogged: as much as the largest message has by default.
A proxy may have one connection for many callers, one of which may be slow."""

Write: TypeAlias = Callable[[Sequence[Piece]], None]
"""Writes pieces one behind the other."""


class Waiting(Protocol):
    """A stream that has more to send."""

    def send_some(self) -> bool:
        """Send a frame, if the stream's own window allows it; say whether there is more that it allows."""
        ...


class Outflow:
    """The way out that a connection's streams share. They send in turns if there is not room for all.

    Attributes:
        unsent: How many bytes of data wait for the peer to take them, on all streams together.
        on_fewer: What is called when fewer of them wait than before.
        window: How many bytes of data the peer takes now, on all streams together.
        initial_window: How many it takes on a new stream.
        most_frame_bytes: How many it takes in a frame.
        is_paused: Whether the socket takes no more, because the peer does not read what was written.
        owes_size_update: Whether the next block of headers must begin with HPACK's table size update.
    """

    __slots__ = (
        "_allowed",
        "_gathered",
        "_waiting",
        "_write",
        "initial_window",
        "is_paused",
        "most_frame_bytes",
        "on_fewer",
        "owes_size_update",
        "unsent",
        "window",
    )

    def __init__(self, write: Write) -> None:
        self._write = write
        self._gathered: list[Piece] | None = None
        self._waiting: OrderedDict[Waiting, None] = OrderedDict()
        self.unsent = 0
        self.on_fewer: Callable[[], object] | None = None
        self.window = self._allowed = frames.DEFAULT_WINDOW
        self.initial_window = frames.DEFAULT_WINDOW
        self.most_frame_bytes = frames.SMALLEST_MAX_FRAME
        self.is_paused = False
        self.owes_size_update = False

    def __repr__(self) -> str:
        state = "paused" if self.is_paused else "open"
        return f"<Outflow: {state}, {len(self._waiting)} streams wait, {self.window} bytes of window>"

    @property
    def sent(self) -> int:
        """How many bytes of data have been sent."""
        return self._allowed - self.window

    @property
    def is_clogged(self) -> bool:
        """Whether so much waits for the peer that nothing is to be begun whose answer would join it."""
        return self.unsent > MOST_UNSENT_BYTES

    @property
    def is_gathering(self) -> bool:
        """Whether what is emitted is kept, to be written later."""
        return self._gathered is not None

    def gather(self) -> None:
        """Keep what is emitted from now on, to write it together."""
        self._gathered = []

    def write_gathered(self) -> None:
        """Write what has been kept, and keep no more."""
        gathered, self._gathered = self._gathered, None
        if gathered:
            self._write(gathered)

    def emit(self, *pieces: Piece) -> None:
        """Send pieces of whole frames."""
        if self._gathered is None:
            self._write(pieces)
        else:
            self._gathered.extend(pieces)

    def emit_headers(self, stream_id: int, flags: int, block: bytes) -> None:
        """Send the headers of a stream."""
        if self.owes_size_update:
            self.owes_size_update = False
            block = NOTHING_REMEMBERED + block
        self.emit(frames.head(frames.HEADERS, frames.END_HEADERS | flags, stream_id, len(block)), block)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes of data may go at once, in one frame, with headers as they are."""
        return (
            size <= self.window and size <= self.most_frame_bytes and not self.is_paused and not self.owes_size_update
        )

    def allow(self, size: int) -> None:
        """Record that the peer takes so many bytes more."""
        self.window += size
        self._allowed += size

    def wait(self, stream: Waiting) -> None:
        """Have a stream send when it is its turn."""
        self._waiting[stream] = None

    def forget(self, stream: Waiting) -> None:
        """Have a stream send no more."""
        self._waiting.pop(stream, None)

    def count_fewer(self, size: int) -> None:
        """Record that so many bytes of data do not wait any more: they are sent, or never will be."""
        self.unsent -= size
        if self.on_fewer is not None:
            self.on_fewer()

    def flush(self) -> None:
        """Let the streams that wait send what the peer takes, a frame each in turn.

        A stream without room in its own window is taken off the queue until it has room, so that a frame of the peer's
        never costs a look at all streams.
        """
        while self._waiting and self.window > 0 and not self.is_paused:
            stream, _ = self._waiting.popitem(last=False)
            if stream.send_some():
                self._waiting[stream] = None
