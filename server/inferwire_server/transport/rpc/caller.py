"""Who calls: the session that a call's metadata names."""

from __future__ import annotations

from inferwire_server.core.sessions import Session
from inferwire_server.errors import invalid_input
from inferwire_server.service import SessionService
from inferwire_server.transport.rpc.status import Context

SESSION_METADATA = "inferwire-session"
"""The metadata entry that names the session a call belongs to."""


def session_of(sessions: SessionService, context: Context) -> Session:
    """Give the session a call names.

    Raises:
        ServingError: INVALID_INPUT where it names none; SESSION_EXPIRED where that is not open.
    """
    session = named_session(sessions, context)
    if session is None:
        raise invalid_input(
            f"the call has no metadata entry {SESSION_METADATA}, "
            "expected the session_id that a stream of InferenceService.Session was welcomed with"
        )
    return session


def named_session(sessions: SessionService, context: Context) -> Session | None:
    """Give the session a call names, or None where it names none.

    Raises:
        ServingError: SESSION_EXPIRED where the named one is not open.
    """
    for key, value in context.invocation_metadata() or ():
        if key == SESSION_METADATA:
            return sessions.get(str(value))
    return None
