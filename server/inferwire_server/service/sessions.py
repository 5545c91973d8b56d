"""Clients' sessions: opened and left by their streams, and ended some time after."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from inferwire_server.core.sessions import Session, Sessions
from inferwire_server.service.sequences import Sequences
from inferwire_server.service.tensors import TensorService
from inferwire_server.service.uploads import UploadService


class SessionService:
    """Opens sessions, and frees what they own when their lease has run out."""

    def __init__(
        self, sessions: Sessions, uploads: UploadService, sequences: Sequences, tensors: TensorService
    ) -> None:
        self._sessions = sessions
        self._uploads = uploads
        self._sequences = sequences
        self._tensors = tensors
        self._left = asyncio.Event()

    def __repr__(self) -> str:
        return f"<SessionService: {self.count} sessions>"

    @property
    def count(self) -> int:
        """How many live: those that are open, and those whose lease has not run out."""
        return len(self._sessions)

    @property
    def lease_s(self) -> float:
        """How long a session outlives its stream, in seconds."""
        return self._sessions.lease_s

    def attach(self, session_id: str, client: str, key: bytes | None = None) -> Session:
        """Open a session, or resume the one of this id, for as long as its stream is open.

        With `key`, which identifies an API key, the session belongs to that key from now on.

        Raises:
            ServingError: SESSION_EXPIRED if the id names none that lives.
        """
        return self._sessions.attach(session_id, client, key)

    def detach(self, session: Session) -> None:
        """Record the end of a session's stream."""
        self._sessions.detach(session, asyncio.get_running_loop().time())
        self._left.set()

    def get(self, session_id: str) -> Session:
        """Give the session of this id.

        Raises:
            ServingError: SESSION_EXPIRED if there is none.
        """
        return self._sessions.get(session_id)

    async def reap(self) -> NoReturn:
        """End sessions as their leases run out; runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(self._sessions.next_expiry):
                    await self._left.wait()
                    self._left.clear()
            except TimeoutError:
                for session in self._sessions.expire(loop.time()):
                    self._sequences.end(session)
                    self._tensors.end(session)
                    self._uploads.end(session)
