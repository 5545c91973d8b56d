"""One connection to a server at a time: opened when first needed, and again after it was lost.

Owns the open link, and the thread that opens one. `link` knows how to open it, and other modules what is sent on it.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable

from inferwire.errors import anew, closed_here
from inferwire.process import FINALIZING, THIS, keep_for_ever
from inferwire.transport.address import Address
from inferwire.transport.credentials import Credentials
from inferwire.transport.link import Link, Opener, Opening
from inferwire.transport.timeouts import Timeouts


class Connection:
    """The way to one server. Threads share it; a forked child opens a link of its own.

    A separate thread opens a link, and the threads that need one wait. A signal handler may interrupt that wait, but
    must not interrupt gRPC while it begins a stream, because the channel could then never be closed.
    """

    def __init__(
        self, address: Address, timeouts: Timeouts, credentials: Credentials, opened: Callable[[], object]
    ) -> None:
        """Begin without a link; `opened` is called each time one is opened, and must not wait for this connection."""
        self._opened = opened
        self._address = address
        self._opener = Opener(address, timeouts, credentials)
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._opening: Opening | None = None
        self._session_id = ""
        THIS.after_fork(self._forget_parent)

    def __repr__(self) -> str:
        link = self._link
        return f"<Connection {self._address}: {'open' if link and link.stream.is_open else 'closed'}>"

    @property
    def current(self) -> Link | None:
        """The link, if one is open."""
        link = self._link
        return link if link is not None and link.stream.is_open else None

    @property
    def current_for_calls(self) -> Link | None:
        """The link that calls beside the stream can be made on, if there is one; see `open_for_calls`."""
        opening = self._opening
        return self.current or (opening and opening.greeted)

    def open(self) -> Link:
        """Give the open link, connecting if there is none.

        Raises:
            ServerUnavailable: If no server answers in time. All threads that wait for one attempt are told together.
            RuntimeError: If the interpreter shuts down, or the system gives no thread.
        """
        link = self._link
        if link is not None and link.stream.is_open:
            return link
        found = self._find()
        return found.result() if isinstance(found, Opening) else found

    def open_for_calls(self) -> Link:
        """Give a link for calls beside the stream, without waiting until the session has moved to a socket.

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
            # A link that `open_for_calls` gave early has the same channel as the one that was kept later.
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
        """End the link now, with all that is in flight on it."""
        opening = self._opening
        link, self._link = self._leave(), None
        if link is not None:
            link.close()
        if opening is not None and opening.greeted is not None:
            opening.greeted.close()

    def _find(self) -> Link | Opening:
        """Give the open link or else its opening, which begins if there is none."""
        if sys.is_finalizing() and self.current is None:
            raise RuntimeError(FINALIZING)
        with self._lock:
            return self.current or self._opening or self._begin()

    def _leave(self) -> Link | None:
        """Give the open link, if there is one, and have a link that is being opened closed."""
        opening, self._opening = self._opening, None
        if opening is not None:
            # The opening thread stores the link and then looks at this flag. We set it and then look for the link, so
            # that one of us sees the other.
            opening.is_unwanted = True
        return self.current

    def _forget_parent(self) -> None:
        """Forget the parent's session in a forked child, which must not end the parent's link.

        To destroy a channel is to close it, and older gRPC then shuts down the socket that both processes have.
        """
        self._lock, self._session_id, self._opening = threading.Lock(), "", None
        if self._link is not None:
            keep_for_ever(self._link.channel)
            self._link.stream.disown()

    def _begin(self) -> Opening:
        """Have a thread open a link; the lock is held."""
        opening = Opening()
        try:
            self._opening = opening
            # Not as a `threading.Thread`: its `start` uses a condition, which an interrupt could break.
            _thread.start_new_thread(self._open, (opening,))
        except BaseException:
            # After an interrupt the thread may be running: have it close what it opens.
            self._opening = None
            opening.is_unwanted = True
            raise
        return opening

    def _open(self, opening: Opening) -> None:
        """Open a link for the waiting threads or, if those were interrupted, for later ones."""
        try:
            opening.link = self._keep(self._opener.open(self._session_id, opening), opening)
        except BaseException as error:  # noqa: BLE001 - raised in the waiting threads
            opening.error = anew(error)
            with self._lock:
                if self._opening is opening:
                    self._opening = None
        opening.end()
        for channel in opening.failed:
            channel.close()

    def _keep(self, link: Link, opening: Opening) -> Link:
        """Make the opened link the connection's, unless the connection was closed meanwhile."""
        with self._lock:
            if not opening.is_unwanted:
                # Large executions that are still in flight keep the lost link's channel until they have ended.
                self._link, self._session_id, self._opening = link, link.session_id, None
            # Read after the link was stored: a thread that closes the connection sets the flag without the lock.
            is_unwanted = opening.is_unwanted
            if is_unwanted and self._link is link:
                self._link = None
        if is_unwanted:
            link.stream.finish()
            raise closed_here(str(self._address))
        self._opened()
        return link
