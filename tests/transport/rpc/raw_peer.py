"""A client at a dispatcher without a socket: it sends frames that no gRPC library would, and keeps the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import h2.events as told
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from tests.transport.served_methods import guard_of
from tests.waiting import a_turn, until

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.outflow import Piece
from inferwire_server.transport.rpc.dispatcher import Dispatcher
from inferwire_server.transport.rpc.guard import Guard
from inferwire_server.transport.rpc.messages import PREFIX
from inferwire_server.transport.rpc.methods import Method

PATH = "/tests.Calls/Call"
Fields = Mapping[bytes, bytes]


def framed(message: bytes, flag: int = 0) -> bytes:
    """Write a message as gRPC has it."""
    return PREFIX.pack(flag, len(message)) + message


@dataclass(slots=True)
class Told:
    """What a client has received on a stream."""

    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    data: bytearray = field(default_factory=bytearray)
    trailers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    room: int = 0
    has_ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        """The status of the call, which is in the headers of an answer without messages."""
        return int((self.trailers or self.headers)[b"grpc-status"])

    @property
    def details(self) -> str:
        """The message of the status, as it was sent."""
        return (self.trailers or self.headers)[b"grpc-message"].decode()


class Socket:
    """Stands in for the object that has the connection's socket."""

    began_at = 0.0
    peer = "ipv4:127.0.0.1:1"

    def close(self) -> None:
        """Do nothing."""


class RawPeer:
    """A connection to a dispatcher, both in memory: a call that sends bytes returns when they are processed."""

    def __init__(
        self, methods: Mapping[str, Method] | Method, guard: Guard | None = None, most_message_bytes: int = 1 << 20
    ) -> None:
        if isinstance(methods, Method):
            methods = {PATH: methods}
        self.dispatcher = Dispatcher(methods, guard or guard_of(), most_message_bytes)
        self.connection = self.dispatcher.connect(self._hear, cast("Any", Socket()))
        self.told: dict[int, Told] = {}
        self.takes_data = True
        self._h2 = H2Connection(
            H2Configuration(header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False)
        )
        self._h2.initiate_connection()
        self.push()

    @property
    def running(self) -> str:
        """The calls that the dispatcher has."""
        return repr(self.dispatcher)

    def begin(self, headers: Fields | None = None, data: bytes | None = None, *, end: bool = False) -> int:
        """Begin a stream with a call's headers, or other headers if given, and with its data, if any, behind them."""
        fields = {
            b":method": b"POST",
            b":scheme": b"http",
            b":path": PATH.encode(),
            b"content-type": b"application/grpc",
            b"te": b"trailers",
            **(headers or {}),
        }
        number = self._h2.get_next_available_stream_id()
        self.told[number] = Told()
        self._h2.send_headers(number, tuple(fields.items()), end_stream=end and data is None)
        if data is not None:
            self._send(number, data, end=end)
        self.push()
        return number

    async def answered(self, headers: Fields | None = None, data: bytes = b"") -> Told:
        """Make a call that sends everything at once, and give its answer."""
        return await self.end_of(self.begin(headers, data, end=True))

    async def end_of(self, number: int) -> Told:
        """Give what was received on a stream that has ended, when the dispatcher has no call of it any more."""
        said = self.told[number]
        await until(lambda: said.has_ended or said.reset is not None)
        await a_turn()
        return said

    def send(self, number: int, data: bytes, *, end: bool = False) -> None:
        """Send data; there has to be room for all of it."""
        self._send(number, data, end=end)
        self.push()

    def send_trailers(self, number: int) -> None:
        """End a stream with headers behind its data."""
        self._h2.send_headers(number, ((b"x", b"1"),), end_stream=True)
        self.push()

    def send_what_fits(self, number: int, data: bytes) -> int:
        """Send as much data as there is room for, and give its size."""
        sent = 0
        while room := min(self.room(number), len(data) - sent):
            self.send(number, data[sent : sent + room])
            sent += room
        return sent

    def room(self, number: int) -> int:
        """How much data may be sent on a stream."""
        return self._h2.local_flow_control_window(number)

    def reset(self, number: int) -> None:
        """Reset a stream."""
        self._h2.reset_stream(number, ErrorCodes.CANCEL)
        self.push()

    def take(self, number: int, size: int) -> None:
        """Let so much more be sent on a stream, and on all."""
        self._h2.increment_flow_control_window(size, number)
        self._h2.increment_flow_control_window(size)
        self.push()

    def say(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.connection.receive(data)
        self.push()

    def reset_at_once(self, number: int, data: bytes) -> None:
        """Send all of a call's data and reset the stream, in bytes that arrive together."""
        self._send(number, data, end=True)
        self._h2.reset_stream(number, ErrorCodes.CANCEL)
        self.push()

    def push(self) -> None:
        """Send what waits to be sent until nothing does."""
        while data := self._h2.data_to_send():
            self.connection.receive(data)
            while self.connection.has_more:
                self.connection.receive(b"")

    def _send(self, number: int, data: bytes, *, end: bool) -> None:
        most = self._h2.max_outbound_frame_size
        for at in range(0, max(len(data), 1), most):
            self._h2.send_data(number, data[at : at + most], end_stream=end and at + most >= len(data))

    def _hear(self, pieces: Sequence[Piece]) -> None:
        for event in self._h2.receive_data(b"".join(pieces)):
            match event:
                case told.ResponseReceived():
                    self.told[event.stream_id].headers.update(_fields(event.headers))
                case told.TrailersReceived():
                    self.told[event.stream_id].trailers.update(_fields(event.headers))
                case told.DataReceived():
                    self.told[event.stream_id].data += event.data
                    if self.takes_data:
                        self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        # Not at once, since the other side is still in the middle of sending.
                        asyncio.get_running_loop().call_soon(self.push)
                case told.WindowUpdated() if event.stream_id:
                    self.told[event.stream_id].room += event.delta
                case told.StreamEnded():
                    self.told[event.stream_id].has_ended = True
                case told.StreamReset():
                    self.told[event.stream_id].reset = int(event.error_code)
                case _:
                    pass


def _fields(headers: Any) -> dict[bytes, bytes]:
    return dict(headers)


def data_frame(number: int, data: bytes) -> bytes:
    """Write a frame of data as it is, whether there is room for it or not."""
    return frames.frame(frames.DATA, 0, number, data)
