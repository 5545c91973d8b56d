"""All sessions on sockets of their own: where they are found, what they share, and who looks after silent ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic

from inferwire_proto import frames
from inferwire_server.service import Services
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.session.life_signs import Patience
from inferwire_server.transport.session.socket_session import GiveTo, SocketSession, Surroundings
from inferwire_server.transport.session.stream import SessionTerms

_TICK_S = 1.0
"""How often silent peers are looked for."""


def _to_nobody(_epoch: str) -> None:
    """Give connections to no other process: there is none."""


class SocketSessions:
    """The connections that were taken over, inside `with`. Those for another process `give_to` knows go there.

    Attributes:
        port: Where clients may connect; 0 until it is known, or for nowhere.
        has_tls: Whether they speak TLS there.
        drain: What they are counted in, as gRPC's calls are.
    """

    def __init__(
        self,
        services: Services,
        drain: Drain,
        max_message_bytes: int,
        patience: Patience | None = None,
        clock: Callable[[], float] = monotonic,
        give_to: GiveTo = _to_nobody,
    ) -> None:
        self.port = 0
        self.has_tls = False
        self.drain = drain
        self._max_message_bytes = max_message_bytes
        self._around = Surroundings(services, drain, patience or Patience(), clock, frames.scratch(), give_to)
        self._open: set[SocketSession] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._listening = ExitStack()

    def __repr__(self) -> str:
        return f"<SocketSessions at port {self.port}: {len(self._open)} connections>"

    def __enter__(self) -> SocketSessions:
        self._listening.enter_context(self.drain.notifying(self._begin_to_end))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def hello_s(self) -> float:
        """How long a peer's hello is waited for, in seconds."""
        return self._around.patience.hello_s

    def take_over(self, transport: asyncio.Transport, data: bytes) -> None:
        """Serve a connection that has said the preface, and this behind it."""
        needs_key = self._around.services.access.needs_key
        terms = SessionTerms(
            self._max_message_bytes, self.port, self.has_tls, must_name_server=True, must_resume=needs_key
        )
        session = SocketSession(transport, self._around, terms, self._forget)
        self._open.add(session)
        self.drain.enter()
        # uvloop looks for where to receive only when it begins to read.
        transport.pause_reading()
        transport.set_protocol(session)
        transport.resume_reading()
        session.begin(data)
        if self.drain.is_draining:
            session.write_soon()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def check(self) -> None:
        """Look after the peers that are not heard of."""
        now = self._around.clock()
        for session in tuple(self._open):
            session.check(now)

    def close(self) -> None:
        """End what is left."""
        self.port = 0
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
