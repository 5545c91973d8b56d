"""Who calls: the key and the session that a call's metadata names, and whether it is on this host."""

from __future__ import annotations

from inferwire_proto.errors import Code
from inferwire_proto.metadata import SESSION_METADATA
from inferwire_server.core.sessions import Session
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import SessionService
from inferwire_server.transport.rpc.call_head import Metadata
from inferwire_server.transport.rpc.context import Context

_KEY_METADATA = "authorization"

_SAME_HOST = ("unix:", "ipv4:127.", "ipv6:[::1]", "ipv6:[::ffff:127.")
"""How the addresses of peers on this host begin."""


def shown_key(metadata: Metadata) -> str | None:
    """Give the entry of a call's metadata that shows an API key, written as in HTTP's header; None if there is none."""
    for key, value in metadata:
        if key == _KEY_METADATA:
            return value
    return None


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
    session_id = named_session_id(context.metadata)
    return None if session_id is None else sessions.get(session_id)


def named_session_id(metadata: Metadata) -> str | None:
    """Give the id of the session a call's metadata names, whether it is open or not; None where it names none."""
    for key, value in metadata:
        if key == SESSION_METADATA:
            return value
    return None


def require_same_host(context: Context) -> None:
    """Refuse a caller on another host.

    Raises:
        ServingError: PERMISSION_DENIED.
    """
    peer = context.peer
    if not peer.startswith(_SAME_HOST):
        raise ServingError(
            Code.PERMISSION_DENIED, f"the caller is at {peer}, expected one on this host, by loopback or a Unix socket"
        )
