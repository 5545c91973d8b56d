"""A session's messages on one socket, plain or with TLS: frames in, frames out.

Carries messages between a socket and a `SessionStream`, and leaves it to the stream what they mean. The results that
are ready once a message is taken are written in the same turn of the loop, with no task in between. Whatever goes wrong
ends this connection, and tells its peer why.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from inferwire_proto import frames
from inferwire_proto.frames import Frame, FrameReader, FrameTooLarge, Kind, MalformedFrame
from inferwire_server.errors import ServingError, invalid_input, shutting_down
from inferwire_server.service import Services
from inferwire_server.service.refusals import Interface
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.error_translation import as_serving_error
from inferwire_server.transport.keepalive import Keepalive, PeerTimeouts, Verdict
from inferwire_server.transport.low_water import low_water_of
from inferwire_server.transport.peers import address_of, peer_of
from inferwire_server.transport.session.frame_writers import writer_on
from inferwire_server.transport.session.greeting import MeansAnother, SessionTerms, no_hello
from inferwire_server.transport.session.stream import AT_ONCE, SessionStream
from inferwire_server.transport.turns import Turns
from inferwire_server.transport.v1.codec import encode_error

_PING = frames.frame(Kind.PING)
_PONG = frames.frame(Kind.PONG)

_TURN_S = 0.0005
"""How long the executions of messages that came together may run at once. Those of later ones wait for their turn."""

Give: TypeAlias = Callable[[asyncio.Transport, bytes], None]
"""Gives a connection to another process, with the bytes received on it. Raises a ServingError if that has no place."""

GiveTo: TypeAlias = Callable[[str], Give | None]
"""Says how to give a connection to the process of an epoch; None if there is none that it could be given to."""


@dataclass(frozen=True, slots=True)
class SessionSurroundings:
    """What the connections of a server share.

    Attributes:
        room: The buffer that all of them receive into, one at a time: idle connections have no buffers of their own.
        give_to: How a connection whose client means another process is given to it.
        turns: The turns of connections that have received more than is taken in at once.
    """

    services: Services
    drain: Drain
    timeouts: PeerTimeouts
    clock: Callable[[], float]
    room: memoryview
    give_to: GiveTo
    turns: Turns


class SocketSession(asyncio.BufferedProtocol):
    """One connection, from behind the preface to its end."""

    __slots__ = (
        "_around",
        "_has_left",
        "_has_said_all",
        "_is_ending",
        "_is_reading",
        "_is_scheduled",
        "_keepalive",
        "_later",
        "_loop",
        "_low_water",
        "_max_message_bytes",
        "_on_lost",
        "_owes_pong",
        "_reader",
        "_stream",
        "_transport",
        "_writer",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        around: SessionSurroundings,
        terms: SessionTerms,
        on_lost: Callable[[SocketSession], None],
    ) -> None:
        self._transport = transport
        self._writer = writer_on(transport)
        self._low_water = low_water_of(transport)
        self._around = around
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._max_message_bytes = terms.max_message_bytes
        self._reader = FrameReader(around.room, min(frames.HELLO_BYTES, terms.max_message_bytes))
        self._stream = SessionStream(around.services, terms)
        self._stream.outbox.on_ready = self.write_soon
        self._keepalive = Keepalive(around.timeouts, around.clock())
        self._has_said_all = False
        self._has_left = False
        self._is_ending = False
        self._is_reading = True
        self._is_scheduled = False
        self._owes_pong = False
        self._later: Iterable[Frame] = ()

    def __repr__(self) -> str:
        return f"<SocketSession: {self._keepalive!r}, {self._stream!r}>"

    def begin(self, data: bytes) -> None:
        """Take what was received behind the preface before the connection was taken over."""
        self._writer.begin()
        rest = memoryview(data)
        while rest:
            room = self._reader.room()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            self.buffer_updated(count)
            rest = rest[count:]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the frame that has begun knows better
        """Give the buffer for what is received next."""
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was received, or the first part of it if it is much, and write what is ready then."""
        if not self._is_ending:
            self._take_in(self._reader.received(nbytes))
            self._low_water.expect(self._reader.missing)

    def go_on(self) -> None:
        """Take more of what was received."""
        if not self._is_ending:
            self._take_in(())

    def _take_in(self, frames: Iterable[Frame]) -> None:
        """Take frames, behind earlier ones that still wait. What is not taken at once waits for the next turn."""
        now, stream = self._around.clock(), self._stream
        self._keepalive.heard(now)
        self._is_scheduled = True
        stream.left = AT_ONCE
        came: list[Frame] = []
        received = chain(self._later, frames)
        try:
            if stream.outbox.expects_more:
                stream.go_on()
            while not stream.outbox.expects_more and (frame := next(received, None)) is not None:
                came.append(frame)
                if frame.kind is Kind.MESSAGE:
                    self._take_message(frame.content, now)
                else:
                    self._take_sign(frame.kind)
                if stream.outbox.is_ready:
                    # Results that are ready are not to wait for the inferences of the next message.
                    self._write_results()
            self._later = deque(received)
        except MeansAnother as error:
            self._give_away(error, chain(came, received))
        except FrameTooLarge as error:
            self._refuse(error if self._stream.is_open else _no_small_hello(error))
        except Exception as error:  # noqa: BLE001 - the connection ends with it, whatever it is
            self._refuse(error)
        else:
            self._write()

    def eof_received(self) -> bool:
        """Record that the peer sends no more. If it has sent END, it still gets its answers, though not over TLS."""
        self._has_left = True
        if self._has_said_all and not self._is_ending and self._transport.can_write_eof():
            self._keepalive.heard(self._around.clock())
            return True
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - one end is as good as another
        """End the stream with the connection."""
        self._end()
        self._on_lost(self)

    def pause_writing(self) -> None:
        """Take no more results from the outbox while the peer does not take those that were written."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Go on."""
        self._writer.resume()
        self.write_soon()

    def write_soon(self) -> None:
        """Write what is ready, once in this turn of the loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._write)

    def check(self, now: float) -> None:
        """Do what is due if the peer has been silent for long."""
        match self._keepalive.judge(now, self._writer.unsent_bytes):
            case Verdict.WAIT:
                pass
            case Verdict.ASK:
                self._writer.write(_PING)
                if self._has_left:
                    # The peer cannot answer, and waits for its results. If it is gone, its system will say so.
                    self._keepalive.heard(now)
            case Verdict.REFUSE:
                self._refuse(no_hello(self._around.timeouts.hello_s))
            case Verdict.CUT_OFF:
                self.cut_off()

    def cut_off(self) -> None:
        """End the connection, and say nothing more."""
        self._end()
        self._transport.abort()

    def _take_sign(self, kind: Kind) -> None:
        if kind is Kind.PING:
            self._owes_pong = True
        elif kind is Kind.END:
            if not self._stream.is_open:
                raise invalid_input("the connection's first frame is its end, expected a message with a hello")
            self._has_said_all = True

    def _take_message(self, content: bytes | memoryview, now: float) -> None:
        if self._has_said_all:
            raise invalid_input("a message has come after the end, expected none")
        if self._stream.is_open:
            # Otherwise many messages that came together would keep all other connections waiting.
            may_run = self._around.clock() - now < _TURN_S
            self._stream.receive(content, now, may_run=may_run)
        else:
            self._writer.write_message(self._stream.begin(content, now))
            self._reader.most_bytes = self._max_message_bytes
            self._keepalive.greeted(now)

    def _give_away(self, error: MeansAnother, received: Iterable[Frame]) -> None:
        """Give the connection to the process that its client means, with what was received; refuse it if there is none.

        Frames before the hello ask at most for a pong, which that process gives as well.
        """
        give = self._around.give_to(error.epoch)
        if give is None:
            self._refuse(error)
            return
        # What may follow is for the other process to check.
        self._reader.most_bytes = self._max_message_bytes
        try:
            came = [frames.header(kind, len(content)) + content for kind, content in received]
            give(self._transport, b"".join([*came, self._reader.unfinished()]))
        except (ServingError, MalformedFrame) as refusal:
            self._refuse(refusal)
        else:
            self.cut_off()

    def _write(self) -> None:
        """Write what is ready, and end the connection if nothing more is to come."""
        self._is_scheduled = False
        if self._is_ending:
            return
        outbox = self._stream.outbox
        try:
            if self._owes_pong and self._writer.has_room:
                self._owes_pong = False
                self._writer.write(_PONG)
            self._write_results()
        except Exception as error:  # noqa: BLE001 - the connection ends with it, whatever it is
            self._refuse(error)
            return
        may_read = outbox.has_room and not outbox.expects_more
        if may_read is not self._is_reading:
            self._read_on(may_read)
        if outbox.has_ended:
            if self._has_said_all:
                self._say_end(b"")
            elif self._around.drain.is_draining:
                self._refuse(shutting_down())
        elif outbox.expects_more and outbox.has_room:
            self._around.turns.wait(self)

    def _write_results(self) -> None:
        outbox, writer = self._stream.outbox, self._writer
        while outbox.is_ready and writer.has_room:
            writer.write_message(outbox.take())

    def _read_on(self, may_read: bool) -> None:
        """Stop reading while the peer takes no results, or while what it sent is not taken in; then read on."""
        if may_read is not self._is_reading:
            self._is_reading = may_read
            if may_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _refuse(self, error: Exception) -> None:
        """End the connection, and say why."""
        refusal = as_serving_error(error)
        self._around.services.refusals.count(Interface.SESSION, refusal, peer=address_of(peer_of(self._transport)))
        self._say_end(encode_error(refusal).SerializeToString())

    def _say_end(self, why: bytes) -> None:
        """Say that nothing follows, and wait for the peer to close its side.

        If this side closed while data still arrives, the system would throw away what is still to be sent.
        """
        self._end()
        if self._transport.is_closing():
            return
        self._writer.write(frames.frame(Kind.END, why))
        if self._has_left:
            self._transport.close()
        else:
            self._read_on(True)
            if self._transport.can_write_eof():
                self._transport.write_eof()

    def _end(self) -> None:
        """Cancel what runs and leave the session, once. What is received from now on is thrown away."""
        if self._is_ending:
            return
        self._is_ending = True
        self._later = ()
        self._around.turns.forget(self)
        self._keepalive.ending(self._around.clock())
        self._reader = FrameReader(self._around.room, 0)
        try:
            self._stream.end()
        except Exception as error:  # noqa: BLE001 - the connection ends all the same
            as_serving_error(error)


def _no_small_hello(error: FrameTooLarge) -> ServingError:
    return invalid_input(
        f"the connection begins with a frame of {error.byte_size} bytes, expected a hello with at most "
        f"{error.most_bytes}, and large messages behind it"
    )
