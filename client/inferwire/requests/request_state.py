"""What a request is doing: idle or busy, and how its last execution ended.

Owns the one lock of a request and the order of events: an execution is claimed, begins, is
answered or cancelled, its outputs are stored, the request is idle again, the callback runs, and only
then is the execution done. Knows nothing of tensors, transports or callbacks' threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from inferwire.errors import Cancelled
from inferwire.requests.run import Phase, Run
from inferwire.transport.executions import Outcome, OutputBytes

BUSY = "Infer Request is busy"
CANCELLED = "Infer Request was canceled"


Store: TypeAlias = Callable[[Run, Outcome, OutputBytes], RuntimeError | None]
"""Stores an answer, and gives what went wrong, if anything did."""

# For every inference: Python 3.11 takes long to find a member in its enumeration.
_RUNNING, _ANSWERED, _CANCELLED, _ENDED = Phase.RUNNING, Phase.ANSWERED, Phase.CANCELLED, Phase.ENDED


class RequestState:
    """Whether a request is busy, and its last execution."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The execution, and not a flag: to give up one that has ended must not make the request idle under the next.
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
        """Begin the execution that was claimed. Takes no lock: only who has claimed the request comes here."""
        self._run = run

    def ended_meanwhile(self, run: Run) -> None:
        """Let go of an execution that ended while it was being sent, and cancel it if it was cancelled."""
        execution, run.execution = run.execution, None
        if run.phase is _CANCELLED and execution is not None:
            execution.cancel()

    def finish(self, run: Run, outcome: Outcome, data: OutputBytes, store: Store) -> bool:
        """Have an answer stored and make the request idle again; false where it comes too late."""
        with self._lock:
            if run.phase is not _RUNNING:
                return False
            run.error = store(run, outcome, data)
            run.phase = _ENDED
            run.execution = None
            self._busy_with = None
            return True

    def answer(self, run: Run, outcome: Outcome, data: OutputBytes) -> bool:
        """Keep an answer for the thread that waits to store it; false if it comes too late. The request stays busy."""
        with self._lock:
            if run.phase is not _RUNNING:
                return False
            run.phase = _ANSWERED
            run.execution = None
            run.answer = outcome, data
            return True

    def end(self, run: Run, error: RuntimeError | None) -> None:
        """Make the request idle again once its answer is stored, or could not be; a cancel has done so already."""
        with self._lock:
            if run.phase is _CANCELLED:
                return
            run.phase = _ENDED
            run.answer = None
            run.error = error
            self._busy_with = None

    def cancel(self) -> Run | None:
        """Give up the execution that runs and return it; None if none runs, or its answer is here already."""
        with self._lock:
            run = self._run
            if run is None or run.phase is not _RUNNING:
                return None
            self._drop(run, Cancelled(CANCELLED))
        run.stop()
        return run

    def give_up(self, run: Run, error: RuntimeError) -> bool:
        """Make the request idle again, whatever its execution was doing; false where that has ended or never began.

        Before it began, the last execution stays the last.
        """
        with self._lock:
            if self._busy_with is not run:
                return False
            # Nobody waits for what never began.
            self._drop(run, error if self._run is run else None)
        run.stop()
        return True

    def _drop(self, run: Run, error: RuntimeError | None) -> None:
        run.phase = _CANCELLED
        run.answer = None
        run.error = error
        self._busy_with = None
