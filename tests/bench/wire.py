"""A wire between clients and a server on this machine: a port that leads to another with a delay and a limited rate.

`python -m tests.bench.wire PORT ROUND_TRIP_MS MBIT` prints its own port. It shows the
effects of a network on protocols: how often they wait for a round trip, and how much they have under way. It does not
show those on the system: losses, and how TCP finds out what it may send. Its clock ticks in milliseconds.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, cast

import uvloop

HOST = "127.0.0.1"
_MOST_ON_WIRE = 4 << 20
"""How many bytes may be on their way in one direction of a connection, as in the system's own buffers."""


@dataclass(frozen=True, slots=True)
class Wire:
    """What a wire does to bytes.

    Attributes:
        round_trip_ms: How long they take there and back.
        mbit: How many million bits go through in a second, each way.
    """

    round_trip_ms: float
    mbit: float

    def __str__(self) -> str:
        return f"{self.round_trip_ms:g} ms, {self.mbit:,g} Mbit/s"

    def most_per_second(self, byte_size: int) -> float:
        """Say how many requests of so many bytes it brings in a second."""
        return self.mbit * 1e6 / 8 / byte_size

    @contextmanager
    def to(self, port: int) -> Generator[int]:
        """Give a port that leads through it to another, for as long as the block runs."""
        command = [sys.executable, "-m", __name__, str(port), str(self.round_trip_ms), str(self.mbit)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield int(process.stdout.readline())
            finally:
                process.kill()


class Lane:
    """One direction, which all connections share: bytes wait until those before them are through."""

    def __init__(self, wire: Wire) -> None:
        self._delay_s = wire.round_trip_ms / 2000
        self._bytes_per_s = wire.mbit * 1e6 / 8
        self._free_at = 0.0

    def arrival(self, byte_size: int, now: float) -> float:
        """Say when bytes that are sent now have arrived."""
        self._free_at = max(self._free_at, now) + byte_size / self._bytes_per_s
        return self._free_at + self._delay_s


class End(asyncio.Protocol):
    """One end of a connection: bytes that come in here go out at the other end."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._loop = asyncio.get_running_loop()
        self._other: Self | None = None
        self._early = deque[bytes]()
        # In their order, which timers do not keep; empty bytes are the connection's end.
        self._on_wire = deque[bytes]()
        self._bytes_on_wire = 0
        self._transport: asyncio.Transport

    def join(self, other: Self) -> None:
        """Set the other end, to which the bytes go."""
        self._other = other
        while self._early:
            self._send(self._early.popleft())

    def abort(self) -> None:
        """End the connection, since the other end could not connect."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_MOST_ON_WIRE)
        plain: socket.socket = transport.get_extra_info("socket")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Send on what has come."""
        if self._other is None:
            self._early.append(data)
        else:
            self._send(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Have the other end close once all has arrived there."""
        del exc
        if self._other is not None:
            self._send(b"")

    def _send(self, data: bytes) -> None:
        self._on_wire.append(data)
        self._loop.call_at(self._lane.arrival(len(data), self._loop.time()), self._arrive)
        self._bytes_on_wire += len(data)
        if self._bytes_on_wire > _MOST_ON_WIRE:
            self._transport.pause_reading()

    def _arrive(self) -> None:
        assert self._other is not None
        data = self._on_wire.popleft()
        if not data:
            self._other._transport.close()
            return
        self._bytes_on_wire -= len(data)
        if self._other._transport.is_closing():
            # Nobody is there any more to take it.
            return
        self._other._transport.write(data)
        if self._bytes_on_wire <= _MOST_ON_WIRE and not self._transport.is_reading():
            self._transport.resume_reading()


async def lead(target: int, wire: Wire) -> None:
    """Lead to a port by a wire until this process ends, and print where it begins."""
    loop = asyncio.get_running_loop()
    there, back = Lane(wire), Lane(wire)
    connecting = set[asyncio.Task[None]]()

    async def connect(near: End) -> None:
        # A connection takes one round trip to open.
        await asyncio.sleep(wire.round_trip_ms / 1000)
        try:
            _, far = await loop.create_connection(lambda: End(back), HOST, target)
        except OSError:
            near.abort()
        else:
            far.join(near)
            near.join(far)

    def accept() -> End:
        near = End(there)
        task = loop.create_task(connect(near))
        connecting.add(task)
        task.add_done_callback(connecting.discard)
        return near

    server = await loop.create_server(accept, HOST)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    port, round_trip_ms, mbit = sys.argv[1:]
    uvloop.run(lead(int(port), Wire(float(round_trip_ms), float(mbit))))
