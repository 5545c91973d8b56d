"""Puts a connection on a socket of asyncio's, and deals with peers that are silent or speak another protocol."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from inferwire_server.transport.http2.connection import Connection
from inferwire_server.transport.http2.frame_reader import OtherProtocol
from inferwire_server.transport.http2.frames import ConnectionFailed
from inferwire_server.transport.http2.outflow import Piece, Write
from inferwire_server.transport.keepalive import Keepalive, PeerTimeouts, Verdict
from inferwire_server.transport.low_water import low_water_of
from inferwire_server.transport.peers import peer_of
from inferwire_server.transport.protocol_switch import ProtocolSwitch
from inferwire_server.transport.turns import Turns

H = TypeVar("H")

_LARGE_PIECE = 16 * 1024
"""From this many bytes on, a piece is written as it is, and not joined with others first."""

_LINGER_S = 1.0
"""How long a peer has to close a connection with TLS, whose sides cannot be closed one by one."""

_MOST_UNHEARD_BYTES = 1024 * 1024
"""How many bytes may wait for a peer that does not read before this side stops reading from it."""


TIMEOUTS = PeerTimeouts(hello_s=20.0, silence_s=30.0, answer_s=10.0, linger_s=10.0)
"""How long a peer is waited for; its hello is the preface."""


@dataclass(frozen=True, slots=True)
class Http2Timeouts:
    """How long a peer may do nothing, in seconds.

    Attributes:
        peer: On the connection as a whole.
        stall_s: On a stream that waits for it.
        heard_s: After it is told that this side leaves: until then it may begin calls, which are answered.
        look_s: How often these times are checked.
    """

    peer: PeerTimeouts = TIMEOUTS
    stall_s: float = 60.0
    heard_s: float = 0.5
    look_s: float = 2.5


@dataclass(frozen=True, slots=True)
class Http2Surroundings(Generic[H]):
    """What the connections of a server share.

    Attributes:
        on_made: Called with each connection that begins.
        on_lost: Called with each that ends, or goes on with another protocol.
        other: Another protocol that peers may speak, if any.
        not_http2: What is sent to peers that speak neither.
        timeouts: How long peers may do nothing.
        turns: The turns of connections that have received more than is taken in at once.
        clock: What the time is, in seconds.
    """

    on_made: Callable[[Http2Protocol[H]], object]
    on_lost: Callable[[Http2Protocol[H]], object]
    not_http2: bytes
    other: ProtocolSwitch | None
    timeouts: Http2Timeouts
    turns: Turns
    clock: Callable[[], float]


class Http2Protocol(asyncio.Protocol, Generic[H]):
    """One connection, from its accept to its end.

    Attributes:
        began_at: When it began, on the clock that the connections share.
        peer: Who is at the other end, as gRPC writes it: `ipv4:127.0.0.1:1234`, `ipv6:[::1]:1234` or `unix:`.
    """

    def __init__(
        self, connect: Callable[[Write, Http2Protocol[H]], Connection[H]], around: Http2Surroundings[H]
    ) -> None:
        self._connect = connect
        self._around = around
        self.began_at = around.clock()
        self._keepalive = Keepalive(around.timeouts.peer, self.began_at)
        self._is_closing = False
        self._is_deaf = False
        self.peer = ""
        self._transport: asyncio.Transport
        self._connection: Connection[H]

    def __repr__(self) -> str:
        return f"<Http2Protocol {self.peer}: {self._connection!r}>"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection."""
        self._transport = cast("asyncio.Transport", transport)
        plain: socket.socket | None = transport.get_extra_info("socket")
        self.peer = peer_of(transport)
        if plain is not None and plain.family != socket.AF_UNIX:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._low_water = low_water_of(self._transport)
        self._connection = self._connect(self._write, self)
        self._around.on_made(self)

    def data_received(self, data: bytes) -> None:
        """Take what was received, or the first part of it if it is much: the rest waits for this connection's turns."""
        if self._is_closing:
            return
        self._take(data)
        if self._has_more:
            self._around.turns.wait(self)
            if self._has_more:
                self._transport.pause_reading()
        self._low_water.expect(self._connection.data_left)

    def go_on(self) -> None:
        """Take more of what was received, and read on after the last of it. Do neither while the peer does not read."""
        if self._is_deaf:
            return
        if self._has_more:
            self._take(b"")
        if self._has_more:
            self._around.turns.wait(self)
        elif not self._is_deaf:
            self._transport.resume_reading()

    def _take(self, data: bytes) -> None:
        now = self._around.clock()
        self._keepalive.heard(now)
        was_greeted = self._connection.is_greeted
        try:
            self._connection.receive(data)
        except OtherProtocol as other:
            self._go_elsewhere(other.said)
        except ConnectionFailed as failure:
            self._connection.fail(failure)
            self.close()
        if not was_greeted and self._connection.is_greeted:
            self._keepalive.greeted(now)

    def pause_writing(self) -> None:
        """Send no more data while the peer does not read what is sent."""
        self._connection.pause()

    def resume_writing(self) -> None:
        """Send on, and read on."""
        if self._is_deaf:
            self._is_deaf = False
            self._around.turns.wait(self)
        # The peer reads, so it is alive, although what it sends itself may be long in coming.
        self._keepalive.heard(self._around.clock())
        self._connection.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the calls that run for the peer, which is gone."""
        del exc
        self._around.turns.forget(self)
        self._connection.lose()
        self._around.on_lost(self)

    def wait_anew(self, now: float) -> None:
        """Wait for the peer as if it had gone on just now, on the connection and on each stream."""
        self._keepalive.wait_anew(now)
        self._connection.wait_anew()

    def look(self, now: float) -> None:
        """Ping a peer that has been silent for long, and give it up if it does not answer.

        End streams on which the peer does nothing, even if it is there.
        """
        self._connection.look(now, self._unread_bytes, self._around.timeouts.stall_s)
        match self._keepalive.judge(now, self._transport.get_write_buffer_size()):
            case Verdict.WAIT:
                pass
            case Verdict.ASK:
                self._connection.ask()
            case Verdict.REFUSE | Verdict.CUT_OFF:
                self._transport.abort()

    def part(self) -> None:
        """Tell the peer to begin new calls elsewhere."""
        self._connection.part()

    def leave(self) -> None:
        """Take nothing more than was received, and close once all that has begun is over."""
        while self._has_more:
            self._take(b"")
        self._connection.leave()

    def close(self) -> None:
        """Close the connection once all is written, and the peer has read it and closes as well.

        If this side closed both directions, the system would answer whatever the peer still sends with a reset, which
        takes from the peer what it has not read yet.
        """
        if self._is_closing or self._transport.is_closing():
            return
        self._is_closing = True
        self._keepalive.ending(self._around.clock())
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            asyncio.get_running_loop().call_later(_LINGER_S, self._transport.close)

    @property
    def due_bytes(self) -> int:
        """How many bytes the peer has not taken: they wait for its window, in the transport or in the system."""
        return self._connection.outflow.unsent + self._unread_bytes

    @property
    def answers_due(self) -> int:
        """How many complete answers have not been taken. All those that are entirely in the transport count as one."""
        if self._connection.streams.open:
            return self._connection.streams.ending
        return int(self._transport.get_write_buffer_size() > 0)

    def cut_off(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    @property
    def _has_more(self) -> bool:
        """Whether more was received that is to be taken: nothing is, once the connection ends."""
        return self._connection.has_more and not self._is_closing and not self._transport.is_closing()

    @property
    def _unread_bytes(self) -> int:
        """How much has been sent that the peer has not read."""
        open_still: socket.socket | None = self._transport.get_extra_info("socket")
        return self._transport.get_write_buffer_size() + _in_system(open_still)

    def _write(self, pieces: Sequence[Piece]) -> None:
        if self._is_closing or self._transport.is_closing():
            return
        if self._connection.outflow.is_paused and not self._is_deaf:
            # Answers to a peer that does not read are kept in memory: so it may not ask for more of them.
            self._is_deaf = self._transport.get_write_buffer_size() > _MOST_UNHEARD_BYTES
            if self._is_deaf:
                self._transport.pause_reading()
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        elif max(map(len, pieces)) > _LARGE_PIECE:
            self._transport.writelines(pieces)
        else:
            self._transport.write(b"".join(pieces))

    def _go_elsewhere(self, said: bytes) -> None:
        """Hand the connection over to the other protocol once its preface is complete, or refuse the peer."""
        other = self._around.other
        if other is None or not other.may_be(said):
            self._transport.write(self._around.not_http2)
            self.close()
        elif len(said) >= (begun := len(other.preface)):
            self.connection_lost(None)
            other.take_over(self._transport, said[begun:])


def _in_system(open_still: socket.socket | None) -> int:
    """Say how many bytes a socket's peer has not acknowledged; 0 once it is closed, of which TLS tells later."""
    if open_still is None or open_still.fileno() < 0:
        return 0
    try:
        size = fcntl.ioctl(open_still.fileno(), termios.TIOCOUTQ, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(size, sys.byteorder)
