"""An execution from its sending to its one outcome, over a second connection where the first was lost.

Owns when an execution may be sent again and that it is only once. How it is sent is the transport's
business.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from inferwire.errors import InferwireError
from inferwire.transport.compiled_models import LOST
from inferwire.transport.connection import Link
from inferwire.transport.protocol import Execution, ExecutionHeader, Outcome, WireBytes

Send = Callable[[Link, ExecutionHeader, Sequence[WireBytes], Callable[[Outcome], None]], Execution]


class Submission:
    """One execution, however often it is sent. Cancelling it drops its outcome at once."""

    __slots__ = ("_deliver", "_execution", "_inputs", "_link", "_retries", "header")

    def __init__(
        self,
        header: ExecutionHeader,
        inputs: Sequence[WireBytes],
        deliver: Callable[[Outcome], None],
        retries: Retries,
    ) -> None:
        self.header = header
        self._inputs = inputs
        self._deliver: Callable[[Outcome], None] | None = deliver
        self._retries: Retries | None = retries if header.is_retryable else None
        self._execution: Execution | None = None
        self._link: Link | None = None

    def __repr__(self) -> str:
        return f"<Submission of {self.header.target.name!r}: {'in flight' if self._deliver else 'ended'}>"

    @property
    def link(self) -> Link | None:
        """The connection it was last sent on."""
        return self._link

    def send(self, send: Send, link: Link) -> None:
        """Send it on a connection, unless it was cancelled."""
        self._link, inputs = link, self._inputs
        if self._deliver is None:
            return
        execution = send(link, self.header, inputs, self._take)
        # Whoever cancels clears the outcome's receiver first and then looks for this, so that one of us sees the other.
        self._execution = execution
        if self._deliver is None:
            self._forget()
            execution.cancel()

    def fail(self, error: InferwireError) -> None:
        """End it with an error."""
        self._end(Outcome(error=error))

    def cancel(self) -> None:
        """Drop the outcome and tell the server. Safe to call from a destructor."""
        self._deliver = None
        execution = self._execution
        self._forget()
        if execution is not None:
            execution.cancel()

    def _take(self, outcome: Outcome) -> None:
        """Take what one sending has come to."""
        retries = self._retries
        if outcome.error is None or retries is None or self._deliver is None or not isinstance(outcome.error, LOST):
            self._end(outcome)
        else:
            self._retries = None
            retries.put(self)

    def _end(self, outcome: Outcome) -> None:
        deliver, self._deliver = self._deliver, None
        self._forget()
        if deliver is not None:
            deliver(outcome)

    def _forget(self) -> None:
        """Let go of the tensors, and of what leads back here."""
        self._inputs = ()
        self._execution = None


class Retries:
    """Executions whose connection was lost, on their way to a new one.

    One thread at a time takes them there, so that a server that is gone is looked for once and not by
    each of them, and none of gRPC's threads waits for it.
    """

    def __init__(self, send: Send, replace: Callable[[Link], Link]) -> None:
        self._send = send
        self._replace = replace
        self._lock = threading.Lock()
        self._waiting: deque[Submission] = deque()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Retries: {len(self._waiting)} waiting>"

    def put(self, submission: Submission) -> None:
        """Send an execution once more, soon."""
        with self._lock:
            self._waiting.append(submission)
            # A forked child has its parent's thread as one that is not alive.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="inferwire-retry", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while batch := self._gather():
            links: dict[Link | None, Link | InferwireError] = {}
            for submission in batch:
                lost = submission.link
                if lost not in links:
                    links[lost] = self._new_link(lost)
                self._send_again(submission, links[lost])

    def _gather(self) -> list[Submission]:
        with self._lock:
            batch = list(self._waiting)
            self._waiting.clear()
            if not batch:
                self._thread = None
            return batch

    def _new_link(self, lost: Link | None) -> Link | InferwireError:
        if lost is None:
            return InferwireError("an execution that was never sent was lost; this is a bug")
        try:
            return self._replace(lost)
        except InferwireError as error:
            return error

    def _send_again(self, submission: Submission, link: Link | InferwireError) -> None:
        if isinstance(link, InferwireError):
            submission.fail(link)
            return
        try:
            submission.send(self._send, link)
        except InferwireError as error:
            submission.fail(error)
        except Exception as error:  # noqa: BLE001 - whoever waits for the execution must hear of it
            submission.fail(InferwireError(f"sending the execution again failed: {error!r}; this is a bug"))
