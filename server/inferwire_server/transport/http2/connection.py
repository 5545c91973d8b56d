"""One connection: what its frames mean to each stream, and the answers that the protocol itself asks for.

It does no I/O. What a peer may make this side keep or do is bounded: `streams` bounds streams, `open_block` and
`header_blocks` headers, and `flood_limits` all else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from inferwire_server.transport.connection_age import Age
from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.flood_limits import FloodLimits
from inferwire_server.transport.http2.frame_reader import MOST_FRAME_BYTES, FrameReader
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode
from inferwire_server.transport.http2.header_blocks import MOST_HEADER_BYTES, UNPACKED_TIMES, Field, HeaderBlocks
from inferwire_server.transport.http2.open_block import OpenBlock, without_padding
from inferwire_server.transport.http2.outflow import Outflow, Write
from inferwire_server.transport.http2.peer_settings import apply_settings
from inferwire_server.transport.http2.stalls import Stalls
from inferwire_server.transport.http2.stream import STREAM_WINDOW, Receiver, Stream
from inferwire_server.transport.http2.streams import MOST_STREAMS, Streams

_REPLENISH_BYTES = 2**30
"""After this many bytes of data, the peer is allowed as many more on all streams together. What bounds the peer is each
stream's own window."""

_LEAVE = b"leaving."
"""The content of the ping that follows the announcement that this side leaves: its answer shows that the peer knows."""

_ASK = b"present?"
"""The content of the ping that asks a silent peer whether it is there."""

H = TypeVar("H")

Open: TypeAlias = Callable[[Stream, H], Receiver | None]
"""Takes a stream that has begun and what its headers say, and gives its receiver; None if it has none."""


class Refused(Exception):
    """Headers that make no request: their stream is given up."""


class Trailers(Refused):
    """Headers that make no request, and nothing is wrong with them: behind data they may end one."""


class Connection(Generic[H]):
    """A server's side of a connection, whose peer is told how many bytes of headers a call may have.

    When the connection is old, its peer is told to begin nothing more here.

    Headers that are up to `UNPACKED_TIMES` as long open their stream as well: `open_stream` has to refuse them.

    Attributes:
        outflow: The frames that go out.
        streams: Its streams.
        is_greeted: Whether the peer has said that it speaks HTTP/2.
    """

    def __init__(
        self,
        write: Write,
        read_headers: Callable[[Sequence[Field]], H | Refused],
        open_stream: Open[H],
        on_done: Callable[[], object],
        most_header_bytes: int = MOST_HEADER_BYTES,
        age: Age | None = None,
    ) -> None:
        self.outflow = Outflow(write)
        self._on_done = on_done
        self.streams = Streams(self.outflow, self._check_done)
        most_unpacked_bytes = most_header_bytes * UNPACKED_TIMES
        self._blocks = HeaderBlocks(read_headers, most_unpacked_bytes)
        self._open_stream = open_stream
        self._reader = FrameReader(self, most_unpacked_bytes)
        self._block = OpenBlock(most_unpacked_bytes)
        self._most_header_bytes = most_header_bytes
        self.is_greeted = False
        self._age = age or Age()
        self._is_parting = False
        self._has_settings = False
        self._flood_limits = FloodLimits()
        self._taken_in = 0
        self._data: Stream | None = None
        self._data_ends = False
        self._stalls = Stalls()

    def __repr__(self) -> str:
        return f"<Connection: {len(self.streams.open)} streams, {self.outflow!r}>"

    @property
    def is_done(self) -> bool:
        """Whether this side has left, and all streams that the peer had begun are over. `on_done` is called then."""
        return self.streams.last_taken != frames.LARGEST_STREAM and not self.streams.open

    @property
    def has_more(self) -> bool:
        """Whether more was received than is taken at once: another call of `receive` goes on with it."""
        return self._reader.has_more

    @property
    def data_left(self) -> int:
        """How many bytes are still to come of a frame of data that has begun: nothing can come before them."""
        return self._reader.data_left

    def receive(self, data: bytes) -> None:
        """Take data that was received, up to a bound, and write what answers it.

        Raises:
            ConnectionFailed: The peer breaks the protocol. What was to be sent until then is written.
        """
        self.outflow.gather()
        try:
            self._reader.receive(data)
        finally:
            self.outflow.write_gathered()
            self._check_done()

    def ask(self) -> None:
        """Ask the peer whether it is there."""
        self.outflow.emit(frames.frame(frames.PING, content=_ASK))

    def wait_anew(self) -> None:
        """Wait for the peer as if it had gone on with each stream just now."""
        self._stalls = Stalls()

    def look(self, now: float, unread: int, stall_s: float) -> None:
        """End streams on which the peer has not gone on for `stall_s`; `unread` bytes are still on their way to it.

        This is called every few seconds, and each time the counts of `flood_limits` begin anew. From a connection that
        has become old by now, the peer is sent away.
        """
        self._flood_limits.forget()
        if self._age.is_old(now):
            self.part()
        for stream in self._stalls.found(self.streams.open.values(), self.outflow.sent - unread, now, stall_s):
            stream.receiver.take_stall()

    def part(self) -> None:
        """Tell the peer to begin nothing more here. Streams are taken until the peer shows that it has been told."""
        if self.is_greeted and not self._is_parting:
            self._is_parting = True
            self.outflow.emit(
                frames.goaway(frames.LARGEST_STREAM, ErrorCode.NO_ERROR), frames.frame(frames.PING, content=_LEAVE)
            )

    def leave(self) -> None:
        """Take no more streams than have begun."""
        streams = self.streams
        if streams.last_taken == frames.LARGEST_STREAM:
            streams.take_no_more()
            if self.is_greeted:
                self.outflow.emit(frames.goaway(streams.last_taken, ErrorCode.NO_ERROR))
            self._check_done()

    def fail(self, failure: ConnectionFailed) -> None:
        """Tell the peer why this connection takes nothing more from it, and end all streams: nothing follows that."""
        last = min(self.streams.last_begun, self.streams.last_taken)
        self.outflow.emit(frames.goaway(last, failure.code, failure.why))
        self.lose()

    def lose(self) -> None:
        """End all streams: nothing can be sent any more."""
        self.streams.lose()

    def pause(self) -> None:
        """Send no more data for now."""
        self.outflow.is_paused = True

    def resume(self) -> None:
        """Send on."""
        self.outflow.is_paused = False
        self.outflow.flush()

    def take_greeting(self) -> None:
        """Answer the preface. Nothing is sent before it: a peer that speaks something else is answered in HTTP/1.1."""
        self.is_greeted = True
        self.outflow.emit(_first_frames(self._most_header_bytes))

    def check_turn(self, kind: int) -> None:
        """Check that a frame of this kind may come now: settings come first, and nothing between headers' frames.

        Raises:
            ConnectionFailed: PROTOCOL_ERROR.
        """
        if not self._has_settings and kind != frames.SETTINGS:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "the first frame has no settings")
        if self._block.is_open and kind != frames.CONTINUATION:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a frame has come between two of the same headers")

    def take_frame(self, kind: int, flags: int, number: int, content: bytes) -> None:
        """Take a complete frame."""
        match kind:
            case frames.HEADERS | frames.CONTINUATION:
                self._take_headers(kind, flags, number, content)
            case frames.DATA:
                self._take_padded(flags, number, content)
            case frames.WINDOW_UPDATE:
                self._take_window(number, content)
            case frames.SETTINGS:
                self._take_settings(flags, number, content)
            case frames.PING:
                self._take_ping(flags, number, content)
            case frames.RST_STREAM:
                self._take_reset(number, content)
            case frames.PUSH_PROMISE:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a client cannot promise anything")
            case frames.GOAWAY if number:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a stream cannot go away")
            case frames.PRIORITY if not number:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a priority is a stream's")
            case frames.PRIORITY if len(content) != 5:
                raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "a priority has five bytes")
            case _:
                # The frame asks for nothing, or is of an unknown kind, which the RFC has receivers ignore.
                self._count_idle()

    def begin_data(self, flags: int, number: int, size: int) -> None:
        """Begin a frame of data, which is handed on to the stream as it comes."""
        stream = self._stream_of_data(number, size)
        ends = flags & frames.END_STREAM != 0
        if size:
            self._data, self._data_ends = stream, ends
        elif ends:
            self.streams.hear_end(number)
            self._hand_on(stream, memoryview(b""), is_last=True)
        else:
            self._count_idle()

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        """Take a part of a frame of data, or the last of it."""
        stream = self._data
        if is_last:
            self._data = None
        self._hand_on(stream, data, is_last=is_last and self._data_ends)

    def _take_padded(self, flags: int, number: int, content: bytes) -> None:
        stream = self._stream_of_data(number, len(content))
        data, is_last = memoryview(without_padding(content)), flags & frames.END_STREAM != 0
        if data or is_last:
            self._hand_on(stream, data, is_last=is_last)
        else:
            self._count_idle()

    def _stream_of_data(self, number: int, size: int) -> Stream | None:
        """Find the stream that `size` bytes of data are for, and count them; None if the stream is over."""
        self._taken_in += size
        if self._taken_in >= _REPLENISH_BYTES:
            self.outflow.emit(frames.window_update(0, self._taken_in))
            self._taken_in = 0
        stream = self.streams.find(number)
        if stream is None:
            if size:
                self.streams.hear(number)
            return None
        if stream.has_peer_ended:
            stream.reset(ErrorCode.STREAM_CLOSED)
            return None
        stream.credit -= size
        if stream.credit < 0:
            stream.reset(ErrorCode.FLOW_CONTROL_ERROR)
            return None
        return stream

    def _hand_on(self, stream: Stream | None, data: memoryview, *, is_last: bool) -> None:
        if stream is None or stream.is_over:
            return
        if len(data):
            self._flood_limits.idle_frames = 0
        if is_last:
            stream.has_peer_ended = True
        if stream.announced is not None and not stream.is_as_announced(len(data), is_last=is_last):
            stream.reset(ErrorCode.PROTOCOL_ERROR)
            return
        stream.receiver.take_data(data, is_last=is_last)

    def _take_headers(self, kind: int, flags: int, number: int, content: bytes) -> None:
        take = self._block.begin if kind == frames.HEADERS else self._block.go_on
        block = take(flags, number, content)
        if block is None:
            self._count_idle()
        else:
            self._take_block(self._block.flags, number, block)

    def _take_block(self, flags: int, number: int, block: bytes) -> None:
        # Read even if the stream is refused: a block changes the connection's table of headers.
        said = self._blocks.read(block)
        ends = flags & frames.END_STREAM != 0
        if number % 2 == 0:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"a client cannot begin stream {number}")
        streams = self.streams
        if number <= streams.last_begun:
            self._take_trailers(number, said, ends=ends)
            return
        if isinstance(said, Refused):
            streams.refuse(number)
        elif (stream := streams.begin(number)) is not None:
            self._begin_stream(stream, said, ends=ends)

    def _begin_stream(self, stream: Stream, said: H, *, ends: bool) -> None:
        self._flood_limits.idle_frames = 0
        stream.has_peer_ended = ends
        receiver = self._open_stream(stream, said)
        if receiver is not None:
            stream.receiver = receiver
            if ends:
                self._hand_on(stream, memoryview(b""), is_last=True)

    def _take_trailers(self, number: int, said: H | Refused, *, ends: bool) -> None:
        """Take headers that come after data. All that counts of them is that they end the stream."""
        stream = self.streams.find(number)
        if stream is None:
            self.streams.hear_end(number)
        elif stream.has_peer_ended or not ends or not isinstance(said, Trailers):
            stream.reset(ErrorCode.STREAM_CLOSED if stream.has_peer_ended else ErrorCode.PROTOCOL_ERROR)
        else:
            self._hand_on(stream, memoryview(b""), is_last=True)

    def _take_window(self, number: int, content: bytes) -> None:
        more = _number(content, "a window update") & frames.LARGEST_WINDOW
        if not number:
            self.outflow.allow(more)
            if not more or self.outflow.window > frames.LARGEST_WINDOW:
                code = ErrorCode.FLOW_CONTROL_ERROR if more else ErrorCode.PROTOCOL_ERROR
                raise ConnectionFailed(code, f"the window cannot grow by {more} bytes")
            self.outflow.flush()
            return
        stream = self.streams.find(number)
        if stream is None:
            return
        stream.window += more
        if not more or stream.window > frames.LARGEST_WINDOW:
            stream.reset(ErrorCode.FLOW_CONTROL_ERROR if more else ErrorCode.PROTOCOL_ERROR)
        elif stream.unsent:
            self.outflow.wait(stream)
            self.outflow.flush()

    def _take_settings(self, flags: int, number: int, content: bytes) -> None:
        if number:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "settings are not a stream's")
        if flags & frames.ACK:
            if content:
                raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "settings are acknowledged without others")
            self._count_idle()
            return
        self._has_settings = True
        self._flood_limits.count_settings()
        apply_settings(content, self.outflow, self.streams.open.values())
        self.outflow.emit(frames.frame(frames.SETTINGS, frames.ACK))
        self.outflow.flush()

    def _take_ping(self, flags: int, number: int, content: bytes) -> None:
        if number:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a ping is not a stream's")
        if len(content) != len(_ASK):
            raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "a ping has eight bytes")
        self._count_idle()
        if not flags & frames.ACK:
            self.outflow.emit(frames.frame(frames.PING, frames.ACK, content=content))
        elif content == _LEAVE:
            self.leave()

    def _take_reset(self, number: int, content: bytes) -> None:
        _number(content, "a reset")
        stream = self.streams.find(number)
        if stream is None:
            self.streams.hear_end(number)
            self._count_idle()
        else:
            self.streams.give_up(stream)

    def _check_done(self) -> None:
        """Call `on_done` if all is over, but not before everything is written."""
        if self.is_done and not self.outflow.is_gathering:
            self._on_done()

    def _count_idle(self) -> None:
        """Count a frame that brings no call further."""
        self._flood_limits.count_idle(self.outflow.sent)


def _first_frames(most_header_bytes: int) -> bytes:
    """Write the frames that a peer is sent first: settings, and a larger window for all streams together."""
    settings = {
        frames.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
        frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        frames.MAX_FRAME_SIZE: MOST_FRAME_BYTES,
        frames.MAX_HEADER_LIST_SIZE: most_header_bytes,
    }
    return frames.settings(settings) + frames.window_update(0, frames.LARGEST_WINDOW - frames.DEFAULT_WINDOW)


def _number(content: bytes, what: str) -> int:
    if len(content) != frames.UINT32.size:
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, f"{what} has {len(content)} bytes, expected 4")
    return int.from_bytes(content)
