"""What a request is doing: idle or busy, and how its last execution ended.

Owns the one lock of a request and the order of events: an execution is claimed, begins, is
answered or cancelled, its outputs are stored, the request is idle again, the callback runs, and only
then is the execution done. Knows nothing of tensors, transports or callbacks' threads.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum, auto

from inferwire.errors import Cancelled, QueueFull, anew
from inferwire.process import THIS
from inferwire.requests.latch import Latch
from inferwire.requests.request_tensors import Freight
from inferwire.transport.executions import Execution, Outcome

BUSY = "Infer Request is busy"
CANCELLED = "Infer Request was canceled"
FORKED = (
    "the inference was started by the process that forked this one, and only that process gets its answer; "
    "create requests and queues of your own after the fork"
)

FINALIZING = "the interpreter is shutting down, and the threads that would take the answer run no more"


class Phase(Enum):
    """How far one execution is."""

    RUNNING = auto()
    ANSWERED = auto()
    CANCELLED = auto()
    ENDED = auto()


class Run:
    """One execution of a request.

    Attributes:
        on_end: What is told of its end, however it came; it says whether it gives the place back itself, later.
        release: What takes the place back that it has in a queue, at its end; any further time it does nothing.
        place: Which that is; -1 while it has none.
        callback: What is called once it has succeeded.
        on_no_room: What is told that the server had no room for it, why, and what submits it again: it goes on, and its
            request is busy. Without, that is its end.
        answer_latch: Set by the answer or a cancel, where a thread waits for it to store it itself.
        phase: How far it is.
        error: Why it has no outputs; raised by every wait.
        outcome: The answer, until it is stored.
        execution: What it is on the transport while it is there.
        done: Set at the very end, after the callback.
        callback_thread: The thread that runs the callback now.
        pid: The process that began it.
        freight: What it takes to the server and leaves there; what the server keeps of it must stay until the end.
    """

    # What most executions never have is the class's: an execution is made for every inference.
    place = -1
    callback: Callable[[], object] | None = None
    on_no_room: Callable[[Run, QueueFull, Callable[[], object]], object] | None = None
    answer_latch: Latch | None = None
    phase = Phase.RUNNING
    error: RuntimeError | None = None
    outcome: Outcome | None = None
    execution: Execution | None = None
    callback_thread: int | None = None
    freight: Freight | None = None

    def __init__(
        self,
        on_end: Callable[[Run], bool] | None = None,
        release: Callable[[Run], object] | None = None,
        *,
        is_awaited: bool = False,
    ) -> None:
        self.on_end = on_end
        self.release = release
        if is_awaited:
            self.answer_latch = Latch()
        self.done = Latch()
        self.pid = THIS.pid

    def __repr__(self) -> str:
        return f"<Run: {self.phase.name.lower()}, {'done' if self.done.is_set() else 'not done'}>"

    def await_answer(self) -> None:
        """Block the one thread that waits for the answer itself, until it is there or cancelled."""
        if self.answer_latch is not None:
            if sys.is_finalizing():
                raise RuntimeError(FINALIZING)
            self.answer_latch.wait()

    def check_awaited(self) -> None:
        """Refuse to wait for an end that nothing in this process will see.

        Raises:
            RuntimeError: If it has not ended, and another process began it or the interpreter shuts down.
        """
        if self.done.is_set():
            return
        if self.pid != THIS.pid:
            raise RuntimeError(FORKED)
        if sys.is_finalizing():
            raise RuntimeError(FINALIZING)

    def call_back(self) -> None:
        """Call back, and then conclude. What the callback raises is the business of those who wait."""
        self.callback_thread = threading.get_ident()
        callback = self.callback
        try:
            if callback is not None:
                callback()
        except BaseException as error:  # noqa: BLE001 - raised again by every wait
            self.error = RuntimeError(_described(error))
        finally:
            self.callback_thread = None
            self.conclude()

    def conclude(self) -> None:
        """Let go of everybody who waits for the end, and of what the execution needed.

        Its request keeps it, and what it calls may keep the request: a cycle that only garbage collection would free.
        """
        self.freight = None
        self.done.set()
        # After that: whoever wants to be told no more takes it away first and then looks whether it is done.
        on_end, self.on_end = self.on_end, None
        is_kept = on_end is not None and on_end(self)
        self.callback = self.on_no_room = None
        if not is_kept and self.release is not None:
            self.give_back()

    def give_back(self) -> None:
        """Give back the place that it has in a queue, if it has one still."""
        if self.release is not None:
            self.release(self)
            self.release = None

    def raise_error(self) -> None:
        """Raise what went wrong, if anything did."""
        if self.error is not None:
            raise anew(self.error)


class RequestState:
    """Whether a request is busy, and its last execution."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Which execution and not only that there is one: what gives one up must not make the request idle for the next.
        self._busy_with: Run | None = None
        self._run: Run | None = None

    def __repr__(self) -> str:
        phase = "never started" if self._run is None else self._run.phase.name.lower()
        return f"<RequestState: {'busy' if self.is_busy else 'idle'}, {phase}>"

    @property
    def is_busy(self) -> bool:
        """Whether the request may not be touched."""
        return self._busy_with is not None

    @property
    def current(self) -> Run | None:
        """The last execution that began."""
        return self._run

    def idle(self) -> AbstractContextManager[object]:
        """Keep the request idle for something quick.

        Raises:
            RuntimeError: On entering, if it is busy.
        """
        return self

    # Entered for every look at a tensor: with a generator that would cost as much again.
    def __enter__(self) -> None:
        self._lock.acquire()
        if self._busy_with is not None:
            self._lock.release()
            raise RuntimeError(BUSY)

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()

    def check_idle(self) -> None:
        """Refuse a busy request.

        Raises:
            RuntimeError: If it is busy.
        """
        if self._busy_with is not None:
            raise RuntimeError(BUSY)

    def claim(self, run: Run) -> None:
        """Make the request busy, for an execution that is being prepared.

        Raises:
            RuntimeError: If it is busy.
        """
        with self._lock:
            if self._busy_with is not None:
                raise RuntimeError(BUSY)
            self._busy_with = run

    def begin(self, run: Run) -> None:
        """Begin the execution that was claimed."""
        self._run = run

    def sent(self, run: Run, execution: Execution) -> None:
        """Note how to cancel the execution; cancel it now if that was asked for meanwhile."""
        run.execution = execution
        # Whoever cancels or ends it sets the phase first and then looks for this, so that one of us sees the other.
        if run.phase is not Phase.RUNNING:
            run.execution = None
            if run.phase is Phase.CANCELLED:
                execution.cancel()

    def finish(self, run: Run, outcome: Outcome, store: Callable[[Run, Outcome], RuntimeError | None]) -> bool:
        """Have an answer stored and make the request idle again; false where it comes too late."""
        with self._lock:
            if run.phase is not Phase.RUNNING:
                return False
            run.error = store(run, outcome)
            run.phase = Phase.ENDED
            run.execution = None
            self._busy_with = None
            return True

    def answer(self, run: Run, outcome: Outcome) -> bool:
        """Take an answer that somebody else will store; false where it comes too late. The request stays busy."""
        with self._lock:
            if run.phase is not Phase.RUNNING:
                return False
            run.phase = Phase.ANSWERED
            run.execution = None
            run.outcome = outcome
            return True

    def end(self, run: Run, error: RuntimeError | None) -> None:
        """Make the request idle again: what was answered is stored, or has failed. A cancel has done so already."""
        with self._lock:
            if run.phase is Phase.CANCELLED:
                return
            run.phase = Phase.ENDED
            run.outcome = None
            run.error = error
            self._busy_with = None

    def cancel(self) -> Run | None:
        """Give up the execution that runs, and give it; None where none does or its answer is here."""
        with self._lock:
            run = self._run
            if run is None or run.phase is not Phase.RUNNING:
                return None
            self._drop(run, Cancelled(CANCELLED))
        _stop(run)
        return run

    def give_up(self, run: Run, error: RuntimeError) -> None:
        """Make the request idle again, whatever its execution was doing; nothing where that has ended or never began.

        Before it began, the last execution stays the last.
        """
        with self._lock:
            if self._busy_with is not run:
                return
            # Nobody waits for what never began.
            self._drop(run, error if self._run is run else None)
        _stop(run)

    def _drop(self, run: Run, error: RuntimeError | None) -> None:
        run.phase = Phase.CANCELLED
        run.outcome = None
        run.error = error
        self._busy_with = None


def _stop(run: Run) -> None:
    """Give up an execution on the transport, and let go of the thread that waits for its answer."""
    execution, run.execution = run.execution, None
    if execution is not None:
        execution.cancel()
    if run.answer_latch is not None:
        run.answer_latch.set()


def _described(error: BaseException) -> str:
    """Say what a callback raised and where, as openvino does."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    places = "\n".join(f"  {frame.filename}({frame.lineno}): {frame.name}" for frame in reversed(frames))
    return f"{type(error).__name__}: {error}\n\nAt:\n{places}\n"
