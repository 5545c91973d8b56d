"""How a session's stream begins: which hellos are taken, and the welcome. It knows nothing of executions."""

from __future__ import annotations

from dataclasses import dataclass

from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.core.sessions import Session
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import Services

_NO_SESSION = (
    "the hello has no session_id, expected that of a session which was opened over gRPC with an API key: "
    "it goes on here without one"
)

_LONGEST_EPOCH = 64
"""How many characters of the epoch that a client names are repeated to it in an error."""


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """What depends on the carrier of a stream, which is a gRPC call or a socket.

    Attributes:
        max_message_bytes: The largest message it carries.
        takes_sockets: Whether a socket without gRPC may carry the messages as well, to the same port.
        must_name_server: Whether the client has to say which server it means: it may have reached another.
        must_resume: Whether the session has to be open already: the call that opened it has shown a key, and this
            carrier shows none.
        key: The digest of the API key that was shown; None if none was.
    """

    max_message_bytes: int
    takes_sockets: bool
    must_name_server: bool = False
    must_resume: bool = False
    key: bytes | None = None


class MeansAnother(ServingError):
    """A client has said hello to the server of an epoch that is not this one's."""

    def __init__(self, epoch: str) -> None:
        super().__init__(
            Code.SESSION_EXPIRED,
            f"the hello is for the server of epoch '{epoch[:_LONGEST_EPOCH]}', but another one answers here: "
            "it has restarted, or the address leads to several",
        )
        self.epoch = epoch


def no_hello(waited_s: float) -> ServingError:
    """Refuse a client that has opened a stream and said nothing."""
    return invalid_input(f"no hello has come within {waited_s:g} s")


def open_session(services: Services, terms: SessionTerms, message: pb.SessionRequest) -> Session:
    """Open the session that a stream's first message asks for, or resume it, and take the hello out of the message.

    Raises:
        MeansAnother: If the hello is for another server.
        ServingError: Why no session can be opened.
    """
    if not message.HasField("hello"):
        raise invalid_input("the stream's first message has no hello")
    hello = message.hello
    _check_server(services, terms, hello.server_epoch)
    _check_resumes(services, terms, hello.session_id)
    message.ClearField("hello")
    return services.sessions.attach(hello.session_id, hello.client, terms.key)


def welcome(services: Services, terms: SessionTerms, session: Session) -> bytes:
    """Make the first message to the client."""
    identity = services.health.identity
    said = pb.SessionWelcome(
        server_epoch=identity.epoch,
        takes_sockets=terms.takes_sockets,
        session_id=session.id,
        lease_s=services.sessions.lease_s,
        max_message_bytes=terms.max_message_bytes,
        server=f"{identity.name} {identity.version}",
    )
    return pb.SessionResponse(welcome=said).SerializeToString()


def _check_server(services: Services, terms: SessionTerms, named: str) -> None:
    """Refuse a client that means another server."""
    if named and named != services.health.identity.epoch:
        raise MeansAnother(named)
    if not named and terms.must_name_server:
        raise invalid_input("the hello has no server_epoch, expected the one that the server was welcomed with")


def _check_resumes(services: Services, terms: SessionTerms, session_id: str) -> None:
    """Where a client cannot show a key, refuse it unless its session was opened with a key that is valid still."""
    if not terms.must_resume:
        return
    if not session_id:
        raise ServingError(Code.UNAUTHENTICATED, _NO_SESSION)
    services.access.check_still(services.sessions.get(session_id).key)
