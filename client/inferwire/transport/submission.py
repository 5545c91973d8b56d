"""An execution from its sending to its one outcome, on a second connection if the first is lost.

Owns the rule that an execution is sent again, once, if its connection was lost or the server had no room for the
sequence that it begins. Knows nothing of how it is sent: a `Sender` does.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from inferwire.errors import LOST, InferwireError, QueueFull, ServerUnavailable, lost_under_way
from inferwire.latch import Latch
from inferwire.process import THIS
from inferwire.transport.executions import Cancellable, Deliver, ExecutionHeader, Outcome, OutputBytes, WireBytes
from inferwire.transport.link import Link
from inferwire.transport.session.stream_execution import StreamExecution, not_taken


class Submission(StreamExecution):
    """One execution, however often it is sent. Cancelling it drops its outcome at once.

    Attributes:
        header: The part of it that stays the same while shapes do.
        link: The connection that it was last sent on.
        large: The call of its own that it was last sent as, if it was not sent on the connection's stream.
        was_sent: Whether sending it has succeeded at least once.
        is_given_up: Whether it was cancelled, so that its outcome is dropped.
        needs_room: Whether the server had no room for it.
    """

    link: Link | None = None
    large: Cancellable | None = None
    was_sent = False
    is_given_up = False
    needs_room = False
    _may_have_run = False

    def __init__(
        self,
        header: ExecutionHeader,
        inputs: Sequence[WireBytes],
        deliver: Deliver,
        retries: Retries,
        *,
        is_awaited: bool = False,
    ) -> None:
        # Sets what the base class would: calling that would cost half as much again.
        self.inputs = inputs
        self.deliver = deliver
        self.header = header
        self._retries: Retries | None = retries
        if is_awaited:
            self.is_awaited = True

    def __repr__(self) -> str:
        return f"<Submission of {self.header.target.name!r}: {'given up' if self.is_given_up else 'wanted'}>"

    def send(self, sender: Sender, link: Link) -> None:
        """Send it on a connection, unless it was cancelled."""
        if self.is_given_up:
            return
        # Its id from an earlier connection is another execution's on this one: it has none until it is sent.
        self.id = 0
        self.link, self.large = link, None
        sender.send(link, self)
        self.was_sent = True
        # `cancel` sets the flag and then looks for the link, so that one of us sees the other.
        if self.is_given_up:
            self.cancel()

    def await_answer(self, answered: Latch, began: float, timeout_s: float | None = None) -> bool:
        """Wait for the answer, which the calling thread may receive itself if it comes on a stream."""
        if self.large is not None or self.link is None:
            return answered.wait(timeout_s)
        return self.link.stream.attend(answered, began, timeout_s)

    def take(self, outcome: Outcome, data: OutputBytes) -> None:
        """Take the outcome of one sending."""
        if outcome.error is not None:
            self.fail(outcome)
            return
        try:
            self.deliver(outcome, data)
        except Exception as raised:  # noqa: BLE001 - this is gRPC's thread, which would only log it
            self.fail(not_taken(raised))

    def fail(self, outcome: Outcome) -> None:
        """Send it once more if that may help, or end it with the error."""
        retries, self._retries = self._retries, None
        if self.is_given_up:
            return
        # If its stream had ended before, it fails while it is being sent, before `was_sent` is set: it has not run.
        error = outcome.error
        if isinstance(error, ServerUnavailable) and self.was_sent:
            self._may_have_run = True
        self.needs_room = self.header.begins_sequence and isinstance(error, QueueFull)
        is_lost = self.header.is_retryable and isinstance(error, LOST)
        if retries is None or error is None or not (self.needs_room or is_lost):
            self.end(outcome)
            return
        try:
            retries.put(self)
        except (RuntimeError, MemoryError) as raised:
            self.end(Outcome(error=type(error)(f"{error} (and it was not sent again: {raised})")))

    def end(self, outcome: Outcome) -> None:
        """End it with an error. Never raises."""
        if self.is_given_up:
            return
        if self._may_have_run and isinstance(outcome.error, ServerUnavailable):
            outcome = Outcome(error=lost_under_way(outcome.error))
        super().fail(outcome)

    def cancel(self) -> None:
        """Drop the outcome and tell the server. Safe to call from a destructor."""
        self.is_given_up = True
        if self.large is not None:
            self.large.cancel()
        elif self.link is not None:
            self.link.stream.cancel(self)


class Sender(Protocol):
    """Sends executions, however that is done: `WireSender` does."""

    def send(self, link: Link, submission: Submission) -> None:
        """Send an execution on a link."""
        ...

    def is_ready(self, link: Link, header: ExecutionHeader) -> bool:
        """Whether an execution can be sent on a link at once: its session has the model."""
        ...


class Retries:
    """Executions that are sent once more: on a new connection, or once the server has room for them.

    One thread at a time sends them, so that a server that is gone is looked for once and not for each of them, and none
    of gRPC's threads waits for it.
    """

    def __init__(
        self,
        sender: Sender,
        replace: Callable[[Link], Link],
        make_room: Callable[[], bool],
    ) -> None:
        """`make_room` has the server free what is not used any more, and returns whether it could be asked to."""
        self._sender = sender
        self._replace = replace
        self._make_room = make_room
        self._begin()
        THIS.after_fork(self._begin)

    def __repr__(self) -> str:
        return f"<Retries: {len(self._waiting)} waiting>"

    def put(self, submission: Submission) -> None:
        """Send an execution once more, soon.

        Raises:
            RuntimeError: If the system gives no thread for it.
        """
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="inferwire-retry", daemon=True)
                # It looks at `_waiting` only once this lock is released.
                thread.start()
                self._thread = thread
            self._waiting.append(submission)

    def _begin(self) -> None:
        """Begin with nothing to send, also in a forked child: what waits in the parent is the parent's to send."""
        self._lock = threading.Lock()
        self._waiting: deque[Submission] = deque()
        self._thread: threading.Thread | None = None

    def _run(self) -> None:
        # Compiling a model again takes long, so executions that need no compiling go first, even if they came later.
        late: deque[tuple[Submission, Link | InferwireError]] = deque()
        while (batch := self._gather(is_last=not late)) or late:
            links: dict[tuple[Link | None, bool], Link | InferwireError] = {}
            for submission in batch:
                why = submission.link, submission.needs_room
                if why not in links:
                    links[why] = self._link_for(*why)
                    if isinstance(links[why], InferwireError):
                        # Executions that came during the search fail with it, instead of waiting for a second one.
                        batch += self._gather(is_last=False)
                link = links[why]
                if isinstance(link, InferwireError) or self._sender.is_ready(link, submission.header):
                    self._send_again(submission, link)
                else:
                    late.append((submission, link))
            if not batch:
                self._send_again(*late.popleft())

    def _gather(self, *, is_last: bool) -> list[Submission]:
        """Take what waits. If that is nothing and `is_last`, count the thread as ended."""
        with self._lock:
            batch = list(self._waiting)
            self._waiting.clear()
            if not batch and is_last:
                self._thread = None
            return batch

    def _link_for(self, link: Link | None, needs_room: bool) -> Link | InferwireError:
        """Give the link to send executions on again: the same one after making room on the server, else a new one."""
        if link is None:
            return InferwireError("an execution that was never sent was lost; this is a bug")
        try:
            if not needs_room:
                return self._replace(link)
            if not self._make_room():
                # Its calls reach no server, or another than its stream does: nothing would ever be freed on it.
                link = self._replace(link)
                self._make_room()
        except InferwireError as error:
            return error
        except Exception as error:  # noqa: BLE001 - becomes the executions' outcome
            return InferwireError(f"the execution could not be sent again: {error!r}")
        return link

    def _send_again(self, submission: Submission, link: Link | InferwireError) -> None:
        if isinstance(link, InferwireError):
            submission.end(Outcome(error=link))
            return
        try:
            submission.send(self._sender, link)
        except InferwireError as error:
            submission.end(Outcome(error=error))
        except Exception as error:  # noqa: BLE001 - becomes the execution's outcome
            bug = InferwireError(f"sending the execution again failed: {error!r}; this is a bug")
            submission.end(Outcome(error=bug))
