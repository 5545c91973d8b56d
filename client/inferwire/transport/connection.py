"""One connection to a server at a time: opened when first needed, and again after it was lost.

Owns the channel and the session's stream, on it or on a socket beside it, and the thread that opens them. What is said
on them is others' business.
"""

from __future__ import annotations

import _thread
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import grpc

from inferwire.errors import Cancelled, InferwireError, SessionExpired, anew
from inferwire.latch import Latch
from inferwire.process import FINALIZING, THIS
from inferwire.transport import rpc
from inferwire.transport.address import Address, SocketPlace, addresses_of
from inferwire.transport.channel import open_channel
from inferwire.transport.credentials import Credentials
from inferwire.transport.session.carriers import GrpcCarrier
from inferwire.transport.session.session_stream import SessionStream
from inferwire.transport.session.socket_carrier import IS_OFFERED, SocketCarrier, place_text
from inferwire.transport.timeouts import Timeouts
from inferwire.version import CLIENT
from inferwire_proto.inferwire.v1.inference_pb2 import SessionHello, SessionWelcome

CLOSE_TIMEOUT_S = 2.0
SESSION_METADATA = "inferwire-session"

_MOST_AGAIN = 15
"""How often it is dialled again where another server has answered than the session's: a load balancer leads to one
after the other, or to any. Of four servers, it leads to none but the other three so often once in a hundred times."""

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
    def is_usable(self) -> bool:
        """Whether calls can be made on it."""
        return self.stream.is_open

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
        self.channel.close()


class Opening(Latch):
    """A link that is being opened, for all who want one meanwhile.

    Attributes:
        link: What was opened.
        error: Why nothing was.
        greeted: What calls of one answer can be made on meanwhile: the session is there, and may have yet to move.
        failed: Channels on which nothing was opened. To close one takes for ever where gRPC was given no thread for it.
        is_unwanted: Whether it is to be closed as soon as it is open.
    """

    link: Link | None = None
    error: BaseException | None = None
    greeted: Link | None = None
    is_unwanted = False

    def __init__(self) -> None:
        self._is_greeted = Latch()
        self.failed: list[grpc.Channel] = []

    def greet(self, link: Link) -> None:
        """Let those go on who need no more than the session; nobody where this was closed meanwhile."""
        self.greeted = link
        # Whoever closes this looks for what is greeted afterwards.
        if not self.is_unwanted:
            self._is_greeted.set()

    def end(self) -> None:
        """Let everybody go on."""
        self.set()
        self._is_greeted.set()

    def session(self) -> Link:
        """Wait until there is a session, and give a link to make calls of one answer on, or raise why there is none."""
        self._is_greeted.wait()
        return self.result() if self.greeted is None or self.is_set() else self.greeted

    def result(self) -> Link:
        """Wait for its end, and give the link or raise what kept it from being opened."""
        self.wait()
        if self.link is None:
            raise InferwireError("no connection was opened; this is a bug") if self.error is None else anew(self.error)
        return self.link


class Connection:
    """The way to one server. Threads share it; a forked child opens a link of its own.

    A thread of its own opens a link, while who needs one waits: the handler of a signal may interrupt that, but must
    not interrupt gRPC as it begins a stream, since the channel could never be closed then.
    """

    def __init__(
        self, address: Address, timeouts: Timeouts, credentials: Credentials, opened: Callable[[], object]
    ) -> None:
        """Begin without a link; `opened` is called with each that is opened. It must not wait for this one."""
        self._opened = opened
        self._address = address
        self._timeouts = timeouts
        self._credentials = credentials
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._opening: Opening | None = None
        self._session_id = ""
        self._without_socket = ""
        THIS.after_fork(self._forget_parent)

    def __repr__(self) -> str:
        link = self._link
        return f"<Connection {self._address}: {'open' if link and link.is_usable else 'closed'}>"

    @property
    def current(self) -> Link | None:
        """The link, where one is open."""
        link = self._link
        return link if link is not None and link.is_usable else None

    @property
    def current_for_calls(self) -> Link | None:
        """The link that calls of one answer can be made on, where there is one; see `open_for_calls`."""
        opening = self._opening
        return self.current or (opening and opening.greeted)

    def open(self) -> Link:
        """Give the open link, connecting where there is none.

        Raises:
            ServerUnavailable: If no server answers in time; those who wait for it are all told when the first one is.
            RuntimeError: If the interpreter shuts down, or the system gives no thread.
        """
        link = self._link
        if link is not None and link.is_usable:
            return link
        found = self._find()
        return found.result() if isinstance(found, Opening) else found

    def open_for_calls(self) -> Link:
        """Give a link to make calls of one answer on, which do not wait until the session has moved to a socket.

        Raises:
            ServerUnavailable: As `open`.
            RuntimeError: As `open`.
        """
        found = self._find()
        return found.session() if isinstance(found, Opening) else found

    def replace(self, lost: Link) -> Link:
        """Give an open link other than `lost`, connecting if necessary.

        Executions still in flight on `lost` may finish there.

        Raises:
            ServerUnavailable: If no server answers in time.
        """
        opening = self._opening
        if opening is not None and opening.greeted is lost:
            opening.wait()
        with self._lock:
            # That which calls were made on early is of the same channel.
            if self._link is not None and self._link.channel is lost.channel:
                self._link.stream.finish()
                self._link = None
        return self.open()

    def finish(self) -> None:
        """Let the stream end and the channel with it. Safe to call from a destructor."""
        link = self._leave()
        if link is not None:
            link.stream.finish()

    def close(self) -> None:
        """End what is in flight, now."""
        opening = self._opening
        link, self._link = self._leave(), None
        if link is not None:
            link.close()
        if opening is not None and opening.greeted is not None:
            opening.greeted.close()

    def _find(self) -> Link | Opening:
        """Give the open link, or what is to become one."""
        if sys.is_finalizing() and self.current is None:
            raise RuntimeError(FINALIZING)
        with self._lock:
            return self.current or self._opening or self._begin()

    def _leave(self) -> Link | None:
        """Give the open link, or have the one closed that is being opened."""
        opening, self._opening = self._opening, None
        if opening is not None:
            # Its thread makes the link known and then looks at this, and we look for the link afterwards.
            opening.is_unwanted = True
        return self.current

    def _forget_parent(self) -> None:
        """Forget, in a forked child, the parent's session. Its link stays: nobody must end it here."""
        self._lock, self._session_id, self._opening = threading.Lock(), "", None
        if self._link is not None:
            self._link.stream.disown()

    def _begin(self) -> Opening:
        """Have a thread open a link; the lock is held."""
        opening = Opening()
        try:
            self._opening = opening
            # Not as a `threading.Thread`, whose start has conditions that do not bear to be interrupted.
            _thread.start_new_thread(self._open, (opening,))
        except BaseException:
            # Who was interrupted does not know whether the thread runs.
            self._opening = None
            opening.is_unwanted = True
            raise
        return opening

    def _open(self, opening: Opening) -> None:
        """Open a link for all who wait; where they were interrupted, for those who come after them."""
        try:
            opening.link = self._keep(self._resume(opening), opening)
        except BaseException as error:  # noqa: BLE001 - raised by those who wait
            opening.error = anew(error)
            with self._lock:
                if self._opening is opening:
                    self._opening = None
        opening.end()
        for channel in opening.failed:
            channel.close()

    def _keep(self, link: Link, opening: Opening) -> Link:
        """Make what was opened the link, unless this was closed meanwhile."""
        with self._lock:
            if not opening.is_unwanted:
                # What is still in flight as calls of their own keeps the lost link's channel until it has ended.
                self._link, self._session_id, self._opening = link, link.session_id, None
            # Whoever closes this takes no lock.
            is_unwanted = opening.is_unwanted
            if is_unwanted and self._link is link:
                self._link = None
        if is_unwanted:
            link.stream.finish()
            raise Cancelled(f"the connection to {self._address} was closed here")
        self._opened()
        return link

    def _resume(self, opening: Opening) -> Link:
        try:
            return self._greet(self._session_id, opening)
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
            carrier = GrpcCarrier(channel, str(self._address), caller)
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
        """Continue the session on a socket and end the gRPC stream; where no socket can be reached, keep the stream."""
        welcome = stream.welcome
        is_wanted = IS_OFFERED and not self._address.is_grpc_alone
        if not (welcome.takes_sockets and is_wanted) or welcome.server_epoch == self._without_socket:
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
        """Look for the session's server at each of the host's addresses; None where it is at none, or not in time.

        Behind an address that has led to another server it may be the next time.

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
        """Continue the session on a socket there; None where no server of sessions answers in time.

        Raises:
            SessionExpired: If another one does than the session's.
        """
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
