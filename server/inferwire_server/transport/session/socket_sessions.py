"""All sessions on sockets of their own: how they begin, what they share, and the timer that looks for silent peers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic

from inferwire_proto import frames
from inferwire_proto.host.unix_sockets import make_room
from inferwire_server.service import Services
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.keepalive import PeerTimeouts
from inferwire_server.transport.protocol_switch import ProtocolSwitch
from inferwire_server.transport.session.greeting import SessionTerms
from inferwire_server.transport.session.socket_session import GiveTo, SessionSurroundings, SocketSession
from inferwire_server.transport.turns import Turns

_TICK_S = 1.0
"""How often silent peers are looked for."""


def _to_nobody(_epoch: str) -> None:
    """Give connections to no other process: there is none."""


class SocketSessions:
    """The connections that were taken over, inside `with`. `give_to` is how one that means another process gets there.

    Attributes:
        terms: What holds for the streams of all sessions, those in gRPC's calls too: how large a message may be, and
            whether clients may continue on sockets.
        other: The protocol of clients that continue on sockets, known by its preface; None if they may not.
        drain: Counts these connections, and gRPC's calls that carry sessions with them.
        turns: The turns of streams, in gRPC's calls too, that have received more than is taken in at once.
    """

    def __init__(
        self,
        services: Services,
        max_message_bytes: int,
        timeouts: PeerTimeouts | None = None,
        clock: Callable[[], float] = monotonic,
        give_to: GiveTo = _to_nobody,
        *,
        are_taken: bool = True,
    ) -> None:
        self.terms = SessionTerms(max_message_bytes, takes_sockets=are_taken)
        self.other = ProtocolSwitch(frames.PREFACE, self.take_over) if are_taken else None
        self.drain = Drain()
        self.turns = Turns()
        self._around = SessionSurroundings(
            services, self.drain, timeouts or PeerTimeouts(), clock, frames.scratch(), give_to, self.turns
        )
        self._open: set[SocketSession] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._listening = ExitStack()

    def __repr__(self) -> str:
        return f"<SocketSessions: {len(self._open)} connections>"

    def __enter__(self) -> SocketSessions:
        self._listening.enter_context(self.drain.notifying(self._begin_to_end))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def connections(self) -> int:
        """How many connections carry sessions, besides those of gRPC."""
        return len(self._open)

    @property
    def hello_s(self) -> float:
        """How long a peer's hello is waited for, in seconds."""
        return self._around.timeouts.hello_s

    def take_over(self, transport: asyncio.Transport, data: bytes) -> None:
        """Serve a connection that has sent the preface, and `data` behind it."""
        needs_key = self._around.services.access.needs_key
        terms = replace(self.terms, must_name_server=True, must_resume=needs_key)
        plain: socket.socket | None = transport.get_extra_info("socket")
        if plain is not None and plain.family == socket.AF_UNIX:
            make_room(plain)
        session = SocketSession(transport, self._around, terms, self._forget)
        self._open.add(session)
        self.drain.enter()
        # uvloop asks the protocol for its buffer only if it is set before reading begins.
        transport.pause_reading()
        transport.set_protocol(session)
        transport.resume_reading()
        session.begin(data)
        if self.drain.is_draining:
            session.write_soon()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def check(self) -> None:
        """Do what is due about peers that have been silent for long."""
        now = self._around.clock()
        for session in tuple(self._open):
            session.check(now)

    def close(self) -> None:
        """End the connections that are left."""
        self._listening.close()
        for session in tuple(self._open):
            session.cut_off()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick) if self._open else None
        self.check()

    def _begin_to_end(self) -> None:
        for session in self._open:
            session.write_soon()

    def _forget(self, session: SocketSession) -> None:
        self._open.discard(session)
        self.drain.leave()
