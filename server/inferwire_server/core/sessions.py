"""Clients' sessions: which are open, which have lost their connection a short time ago, and which have ended.

A session lives while a stream of it is open, and after the last one until its lease runs out. What it owns is kept
elsewhere, and freed there when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from inferwire_proto.errors import Code
from inferwire_server.core.callers import Caller, of_session
from inferwire_server.core.lifetimes import Lifetimes
from inferwire_server.errors import ServingError


@dataclass(eq=False, slots=True)
class Session:
    """A client's session, which `Sessions` alone changes. The services keep what it owns, under the session.

    Attributes:
        streams: How many are open.
        key: The digest of the API key that it was last opened with; None if no key was shown.
        caller: Who its client is for turns among callers.
    """

    id: str
    client: str
    streams: int = 0
    has_ended: bool = False
    key: bytes | None = None
    caller: Caller = field(default_factory=of_session)

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "open" if self.streams else "on lease"
        return f"<Session {self.id} of {self.client!r}: {state}>"


def session_expired(session_id: str) -> ServingError:
    """Say that a session is not there, or no longer."""
    return ServingError(
        Code.SESSION_EXPIRED,
        f"session '{session_id}' is not open here: its connection ended too long ago, the server has restarted, "
        "or what balances calls between client and server has sent this one to another server",
    )


class Sessions:
    """All sessions by id.

    Attributes:
        lease_s: How long a session outlives its last stream, in seconds.
    """

    def __init__(self, new_id: Callable[[], str], lease_s: float) -> None:
        self._new_id = new_id
        self.lease_s = lease_s
        self._sessions: dict[str, Session] = {}
        self._left: Lifetimes[Session] = Lifetimes(lease_s)

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def next_expiry(self) -> float | None:
        """When the next lease runs out."""
        return self._left.next_end

    def attach(self, session_id: str, client: str, key: bytes | None = None) -> Session:
        """Open a session, or resume the one of this id. A key, if given, is its key from now on.

        Raises:
            ServingError: SESSION_EXPIRED if no session of this id lives.
        """
        session = self.get(session_id) if session_id else self._open(client)
        session.streams += 1
        self._left.stop(session)
        if key is not None:
            session.key = key
        return session

    def detach(self, session: Session, now: float) -> None:
        """Record the end of a stream; the last one's end starts the lease."""
        session.streams -= 1
        if session.streams == 0:
            self._left.begin(session, now)

    def get(self, session_id: str) -> Session:
        """Give the session of this id.

        Raises:
            ServingError: SESSION_EXPIRED if there is none.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise session_expired(session_id)
        return session

    def expire(self, now: float) -> list[Session]:
        """Remove the sessions whose lease has run out, and give them."""
        ended: list[Session] = []
        while (session := self._left.pop_ended(now)) is not None:
            session.has_ended = True
            del self._sessions[session.id]
            ended.append(session)
        return ended

    def _open(self, client: str) -> Session:
        session = Session(self._new_id(), client)
        self._sessions[session.id] = session
        return session
