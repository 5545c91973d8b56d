"""One connection to a server at a time: opened when first needed, and again after it was lost.

Owns the link that is open, and the thread that opens one; how that is done is `link`'s business, and what is said on it
others'.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable

from inferwire.errors import Cancelled, anew
from inferwire.process import FINALIZING, THIS
from inferwire.transport.address import Address
from inferwire.transport.credentials import Credentials
from inferwire.transport.link import Link, Opener, Opening
from inferwire.transport.timeouts import Timeouts


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
        self._opener = Opener(address, timeouts, credentials)
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._opening: Opening | None = None
        self._session_id = ""
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
            opening.link = self._keep(self._opener.open(self._session_id, opening), opening)
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
