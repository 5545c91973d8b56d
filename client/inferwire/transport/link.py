"""A link to a server, and how one is opened: a channel, a session on it, and a socket for the session.

Owns where the session's stream runs, on gRPC or on a socket. When a link is opened is `connection`'s business.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from dataclasses import dataclass, field
from time import monotonic

import grpc

from inferwire.errors import InferwireError, SessionExpired, anew
from inferwire.latch import Latch
from inferwire.transport import rpc
from inferwire.transport.address import Address, SocketPlace, addresses_of, place_text
from inferwire.transport.channel import close_channel, open_channel
from inferwire.transport.credentials import Credentials
from inferwire.transport.session.carriers import GrpcCarrier
from inferwire.transport.session.session_stream import SessionStream
from inferwire.transport.timeouts import Timeouts
from inferwire.version import CLIENT
from inferwire_proto.inferwire.v1.inference_pb2 import SessionHello, SessionWelcome
from inferwire_proto.metadata import SESSION_METADATA

if sys.platform != "win32":
    from inferwire.transport.session.socket_carrier import SocketCarrier

CLOSE_TIMEOUT_S = 2.0

_MOST_AGAIN = 15
"""How often to dial again after another server than the session's has answered. A load balancer leads to its servers
in turn or at random: with four of them, the first dial and these all miss the right one once in a hundred times."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """An open channel, and the session's stream on it or beside it.

    Attributes:
        caller: The metadata by which the server knows who calls.
    """

    channel: grpc.Channel
    stream: SessionStream
    caller: rpc.Metadata = field(repr=False)

    @property
    def session_id(self) -> str:
        """The session that the stream opened or resumed."""
        return self.stream.welcome.session_id

    @property
    def metadata(self) -> rpc.Metadata:
        """What names the caller and the session in unary calls."""
        return (*self.caller, (SESSION_METADATA, self.session_id))

    def close(self) -> None:
        """End the stream and the channel."""
        self.stream.close(CLOSE_TIMEOUT_S)
        close_channel(self.channel)


class Opening(Latch):
    """A link that is being opened, and what the threads that need it wait for.

    Attributes:
        link: The link, once it is open.
        error: Why it could not be opened.
        greeted: A link that calls beside the stream can be made on already: it has a session, whose stream may still
            have to move to a socket.
        failed: Channels on which no stream was opened. Closing one never returns if gRPC got no thread for the stream.
        is_unwanted: Whether the link is to be closed as soon as it is open.
    """

    link: Link | None = None
    error: BaseException | None = None
    greeted: Link | None = None
    is_unwanted = False

    def __init__(self) -> None:
        self._is_greeted = Latch()
        self.failed: list[grpc.Channel] = []

    def greet(self, link: Link) -> None:
        """Wake the threads that need no more than the session, unless the connection was closed meanwhile."""
        self.greeted = link
        # `Connection.close` sets `is_unwanted` and then looks at `greeted`, so that one of us sees the other.
        if not self.is_unwanted:
            self._is_greeted.set()

    def end(self) -> None:
        """Wake all waiting threads."""
        self.set()
        self._is_greeted.set()

    def session(self) -> Link:
        """Wait until there is a session, and give a link for calls beside its stream, or raise why there is none."""
        self._is_greeted.wait()
        return self.result() if self.greeted is None or self.is_set() else self.greeted

    def result(self) -> Link:
        """Wait until the opening has ended, and give the link or raise why there is none."""
        self.wait()
        if self.error is not None:
            raise anew(self.error)
        if self.link is None:
            raise InferwireError("no connection was opened; this is a bug")
        return self.link


class Opener:
    """Opens links to one server.

    If the session's server cannot be reached at a socket, it is not looked for at one again until it has restarted.
    """

    def __init__(self, address: Address, timeouts: Timeouts, credentials: Credentials) -> None:
        self._address = address
        self._timeouts = timeouts
        self._credentials = credentials
        self._without_socket = ""

    def __repr__(self) -> str:
        return f"<Opener of links to {self._address}>"

    def open(self, session_id: str, opening: Opening) -> Link:
        """Open a link whose stream resumes a session, or opens a new one if there is none of this id.

        Raises:
            ServerUnavailable: If no server answers in time.
        """
        try:
            return self._greet(session_id, opening)
        except SessionExpired:
            # The server has restarted, or forgot the session: what it owned is gone, served models are not.
            return self._greet("", opening)

    def _greet(self, session_id: str, opening: Opening) -> Link:
        """Open a channel and a stream that resumes a session, or opens a new one."""
        channel = open_channel(self._address, self._timeouts, self._credentials)
        caller = self._credentials.metadata
        stream: SessionStream | None = None
        try:
            greeting = SessionHello(client=CLIENT, session_id=session_id)
            # One process of several at the port has the session: it is the metadata that leads to it.
            named = ((SESSION_METADATA, session_id),) if session_id else ()
            carrier = GrpcCarrier(channel, str(self._address), (*caller, *named))
            stream = SessionStream(carrier, str(self._address), greeting, self._timeouts.connect_s)
            opening.greet(Link(channel, stream, caller))
            stream = self._beside(stream)
            return Link(channel, stream, caller)
        except BaseException:
            if stream is not None:
                stream.finish()
            opening.failed.append(channel)
            raise

    def _beside(self, stream: SessionStream) -> SessionStream:
        """Continue the session on a socket and end the gRPC stream; keep the stream if no socket can be reached."""
        welcome = stream.welcome
        is_wanted = welcome.takes_sockets and not self._address.is_grpc_alone
        if not is_wanted or welcome.server_epoch == self._without_socket:
            return stream
        try:
            on_socket = self._dial(welcome)
        except OSError as error:
            _LOG.debug("the session at %s stays on gRPC: %s", self._address, error)
            on_socket = None
        if on_socket is None:
            self._without_socket = welcome.server_epoch
            return stream
        stream.finish()
        return on_socket

    def _dial(self, welcome: SessionWelcome) -> SessionStream | None:
        """Look for the session's server at each of the host's addresses; None if it is at none, or not found in time.

        An address that has led to another server is tried again, because it may lead to the session's the next time.

        Raises:
            OSError: If there is no such host.
        """
        began_at, again_left = monotonic(), _MOST_AGAIN
        places = deque(addresses_of(self._address.place))
        while places:
            place = places.popleft()
            try:
                if (on_socket := self._at(place, welcome)) is not None:
                    return on_socket
                may_again = False
            except SessionExpired as error:
                _LOG.debug("the session at %s is not at %s: %s", self._address, place_text(place), error)
                may_again = again_left > 0
            took_s = monotonic() - began_at
            if took_s > self._timeouts.connect_s:
                break
            if may_again and took_s < self._timeouts.socket_s:
                again_left -= 1
                places.append(place)
        return None

    def _at(self, place: SocketPlace, welcome: SessionWelcome) -> SessionStream | None:
        """Continue the session on a socket at one address; None if no server of sessions answers there in time.

        Raises:
            SessionExpired: If a server answers that does not have the session.
        """
        if sys.platform == "win32":
            _LOG.debug("the session at %s stays on gRPC: Windows' sockets lack what it needs", self._address)
            return None
        greeting = SessionHello(client=CLIENT, session_id=welcome.session_id, server_epoch=welcome.server_epoch)
        carrier: SocketCarrier | None = None
        try:
            tls = self._credentials.tls_context() if self._address.is_secure else None
            carrier = SocketCarrier(place, self._timeouts, tls, self._address.host)
            return SessionStream(carrier, str(self._address), greeting, self._timeouts.socket_s)
        except SessionExpired:
            raise
        except (InferwireError, OSError) as error:
            _LOG.debug("the session at %s is not at %s: %s", self._address, place_text(place), error)
            return None
        except BaseException:
            if carrier is not None:
                carrier.cancel()
            raise
