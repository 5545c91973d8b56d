"""A client's end of a connection, without a socket and without a library: it sends frames and reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.connection import Connection, Refused, Trailers
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode
from inferwire_server.transport.http2.header_blocks import Field, write_block
from inferwire_server.transport.http2.outflow import Piece
from inferwire_server.transport.http2.stream import Receiver, Stream

Headers = tuple[Field, ...]

REQUEST = write_block([(b":method", b"POST"), (b":path", b"/a")])
NO_REQUEST = write_block([(b"refused", b"yes")])
STATUS = b"\x88"
"""`:status: 200`, by its number in the static table."""

TRAILERS = write_block([(b"grpc-status", b"0")])
MALFORMED = write_block([(b"X", b"1")])


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it was received."""

    kind: int
    flags: int
    stream: int
    content: bytes = b""

    @property
    def number(self) -> int:
        """Its content, if that is a number."""
        return int.from_bytes(self.content)


def frames_in(data: bytes) -> list[Frame]:
    """Read frames, which have to be whole."""
    found: list[Frame] = []
    while data:
        assert len(data) >= 9
        end = 9 + int.from_bytes(data[:3])
        assert len(data) >= end
        found.append(Frame(data[3], data[4], int.from_bytes(data[5:9]), data[9:end]))
        data = data[end:]
    return found


def data_in(found: Sequence[Frame], stream: int) -> bytes:
    """Join the data of one stream's frames."""
    return b"".join([frame.content for frame in found if frame.kind == frames.DATA and frame.stream == stream])


def headers(number: int, block: bytes = REQUEST, flags: int = 0) -> bytes:
    """Begin a stream, which goes on unless a flag says otherwise."""
    return frames.frame(frames.HEADERS, frames.END_HEADERS | flags, number, block)


def data(number: int, content: bytes = b"", flags: int = 0) -> bytes:
    """Send data on a stream, which goes on unless a flag says otherwise."""
    return frames.frame(frames.DATA, flags, number, content)


def answered(number: int, content: bytes) -> list[Frame]:
    """Give the frames of a whole answer."""
    return [
        Frame(frames.HEADERS, frames.END_HEADERS, number, STATUS),
        Frame(frames.DATA, 0, number, content),
        ended(number),
    ]


def ended(number: int) -> Frame:
    """Give the last frame of an answer."""
    return Frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, number, TRAILERS)


def reset(number: int, code: ErrorCode) -> Frame:
    """Give the frame that resets a stream."""
    return Frame(frames.RST_STREAM, 0, number, int(code).to_bytes(4))


def allowed(number: int, size: int) -> Frame:
    """Give the frame that lets a peer send more."""
    return Frame(frames.WINDOW_UPDATE, 0, number, size.to_bytes(4))


def goes(last: int, code: ErrorCode = ErrorCode.NO_ERROR, why: bytes = b"") -> Frame:
    """Give the frame that names the last stream that is processed, GOAWAY."""
    return Frame(frames.GOAWAY, 0, 0, last.to_bytes(4) + int(code).to_bytes(4) + why)


def sizes(told: Sequence[Frame]) -> list[tuple[int, int]]:
    """Give the stream and the size of each frame of data that was sent."""
    return [(frame.stream, len(frame.content)) for frame in told if frame.kind == frames.DATA]


class Heard:
    """What was received on one stream, and how it ended."""

    def __init__(self, stream: Stream, said: Headers) -> None:
        self.stream = stream
        self.headers = said
        self.parts: list[bytes] = []
        self.has_all = False
        self.ends = 0
        self.rooms = 0
        self.stalls = 0
        self.awaits_data = False

    @property
    def data(self) -> bytes:
        """All data so far."""
        return b"".join(self.parts)

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        """Keep the data."""
        assert not self.has_all
        assert not self.ends
        self.parts.append(bytes(data))
        self.has_all = is_last

    def take_end(self) -> None:
        """Count it."""
        self.ends += 1

    def take_room(self) -> None:
        """Count it."""
        self.rooms += 1

    def take_stall(self) -> None:
        """Count it, and end the stream."""
        self.stalls += 1
        self.stream.abandon(TRAILERS)

    def answer(self, content: bytes = b"answer") -> None:
        """Answer with so many bytes."""
        self.stream.answer(STATUS, (content,), len(content), TRAILERS)


class Wire:
    """A connection and the frames on it; `on_begin` is called with each stream that begins."""

    def __init__(self, on_begin: Callable[[Heard], object] | None = None) -> None:
        self.written: list[bytes] = []
        self.heard: dict[int, Heard] = {}
        self.times_done = 0
        self._on_begin = on_begin
        self.connection: Connection[Headers] = Connection(self._write, _read, self._begin, self._be_done)

    @property
    def outflow(self) -> str:
        """A description of what waits to be sent."""
        return repr(self.connection.outflow)

    def greet(self, **settings: int) -> Wire:
        """Send the first bytes of a client, and discard the answer."""
        values = {getattr(frames, name.upper()): value for name, value in settings.items()}
        self.say(frames.PREFACE, frames.settings(values))
        return self

    def say(self, *said: bytes) -> list[Frame]:
        """Send bytes at once, and give the frames of the answer."""
        self.connection.receive(b"".join(said))
        return self.told()

    def say_all(self, *said: bytes) -> list[Frame]:
        """Send bytes, and have all of them read, however many turns that takes; give the frames of the answer."""
        self._have_taken(*said)
        return self.told()

    def told(self) -> list[Frame]:
        """Give the frames that were sent since the last call."""
        told, self.written = b"".join(self.written), []
        return frames_in(told)

    def begin(self, number: int, flags: int = 0) -> Heard:
        """Begin a stream, and give the object that receives what comes on it."""
        assert self.say(headers(number, flags=flags)) == []
        return self.heard[number]

    def set(self, **settings: int) -> list[Frame]:
        """Send settings, which have to be acknowledged; give the other frames of the answer."""
        acknowledged, *rest = self.say(
            frames.settings({getattr(frames, name.upper()): value for name, value in settings.items()})
        )
        assert acknowledged == Frame(frames.SETTINGS, frames.ACK, 0)
        return rest

    def fails(self, *said: bytes) -> ErrorCode:
        """Send bytes that break the protocol, and give the error's code."""
        with pytest.raises(ConnectionFailed) as raised:
            self._have_taken(*said)
        assert str(raised.value) == f"{raised.value.code.name}: {raised.value.why}"
        return raised.value.code

    def _have_taken(self, *said: bytes) -> None:
        self.connection.receive(b"".join(said))
        while self.connection.has_more:
            self.connection.receive(b"")

    def _write(self, pieces: Sequence[Piece]) -> None:
        assert pieces
        assert not self.times_done  # it would not be read, since that closes the connection
        self.written += [bytes(piece) for piece in pieces]

    def _begin(self, stream: Stream, said: Headers) -> Receiver | None:
        stream.receiver = heard = self.heard[stream.id] = Heard(stream, said)
        if self._on_begin is not None:
            self._on_begin(heard)
        return None if stream.is_over else heard

    def _be_done(self) -> None:
        self.times_done += 1


def _read(fields: Sequence[Field]) -> Headers | Refused:
    names = [name for name, _ in fields]
    if b"X" in names or b"refused" in names:
        return Refused("no request")
    return Trailers() if b"grpc-status" in names else tuple(fields)
