"""Both ends of connections on sockets: a client that sends frames, and calls that a test answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.transport.http2.wire import Frame, Headers, Heard, frames_in
from tests.waiting import LIMIT_S, until

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.connection import Connection
from inferwire_server.transport.http2.header_blocks import write_block
from inferwire_server.transport.http2.outflow import Write
from inferwire_server.transport.http2.protocol import Http2Protocol, Http2Surroundings, Http2Timeouts
from inferwire_server.transport.http2.stream import Receiver, Stream
from inferwire_server.transport.turns import Turns

MUCH = 1 << 24
"""More bytes than sockets buffer while they are not read."""

PREFACE = frames.PREFACE + frames.settings({frames.INITIAL_WINDOW_SIZE: 2 * MUCH}) + frames.window_update(0, 2 * MUCH)
"""The first bytes of a client that lets much be sent to it."""

NOT_HTTP2 = b"something else, please"


class Calls:
    """The calls of all connections, in the order in which they began, and the connections' ends.

    Attributes:
        now: What the connections' clock shows, in seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.heard: list[Heard] = []
        self.made: list[Http2Protocol[Headers]] = []
        self.lost: list[Http2Protocol[Headers]] = []
        self._at_once: bytes | None = None
        turns = Turns(lambda call: asyncio.get_running_loop().call_soon(call))
        self._around = Http2Surroundings(
            self.made.append, self.lost.append, NOT_HTTP2, None, Http2Timeouts(), turns, lambda: self.now
        )

    def connect(self, write: Write, protocol: Http2Protocol[Headers]) -> Connection[Headers]:
        """Begin a connection."""
        return Connection(write, tuple, self._begin, protocol.close)

    def protocol(self) -> Http2Protocol[Headers]:
        """Make the protocol that reads a connection."""
        return Http2Protocol(self.connect, self._around)

    async def begun(self, count: int = 1) -> Heard:
        """Wait until so many calls have begun; give the last."""
        await until(lambda: len(self.heard) >= count)
        return self.heard[count - 1]

    def answer_at_once(self, size: int) -> None:
        """Answer calls as they begin, with headers of so many bytes alone."""
        self._at_once = write_block([(b"a", bytes(size))])

    def _begin(self, stream: Stream, said: Headers) -> Receiver | None:
        if self._at_once is not None:
            stream.finish(self._at_once)
            return None
        stream.receiver = heard = Heard(stream, said)
        self.heard.append(heard)
        return heard


class Peer:
    """A client's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, *said: bytes) -> None:
        """Send bytes."""
        self._writer.write(b"".join(said))

    @property
    def own_name(self) -> tuple[str, int]:
        """The address and port of this end."""
        return self._writer.get_extra_info("sockname")

    def have_little_room(self) -> None:
        """Fix the size of the receive buffer, which the system would grow for a client that has read some."""
        plain: socket.socket = self._writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)

    async def greet(self) -> None:
        """Send the first bytes of a client, and read the answer to them."""
        self.say(PREFACE)
        assert [frame.kind for frame in await self.told(3)] == [
            frames.SETTINGS,
            frames.WINDOW_UPDATE,
            frames.SETTINGS,
        ]

    async def told(self, count: int) -> list[Frame]:
        """Give the next frames, so many."""
        found: list[Frame] = []
        async with asyncio.timeout(LIMIT_S):
            while len(found) < count:
                head = await self._reader.readexactly(frames.HEAD_BYTES)
                found += frames_in(head + await self._reader.readexactly(int.from_bytes(head[:3])))
        return found

    async def rest(self) -> list[Frame]:
        """Give the frames that come until the connection ends."""
        return frames_in(await self.rest_of_bytes())

    async def rest_of_bytes(self) -> bytes:
        """Give the bytes until the other end has sent its end, and close then, as clients do."""
        try:
            async with asyncio.timeout(LIMIT_S):
                return await self._reader.read()
        finally:
            self.close()

    async def is_cut_off(self) -> bool:
        """Wait until the connection ends, and say whether nothing came before it did."""
        try:
            return await self.rest_of_bytes() == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@asynccontextmanager
async def connected(at: socket.socket) -> AsyncGenerator[Peer, None]:
    """Connect to a listening socket."""
    address = at.getsockname()
    if at.family == socket.AF_UNIX:
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(address[0], address[1])
    peer = Peer(reader, writer)
    try:
        yield peer
    finally:
        peer.close()
