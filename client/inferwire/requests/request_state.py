"""What a request is doing: idle or busy, and how its last execution ended.

Owns the one lock of a request and the order of events: an execution is claimed, begins, is
answered or cancelled, its outputs are stored, the request is idle again, the callback runs, and only
then is the execution done. Knows nothing of tensors, transports or callbacks' threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from inferwire.requests.run import Run
from inferwire.transport.executions import Outcome, OutputBytes

BUSY = "Infer Request is busy"
CANCELLED = "Infer Request was canceled"


Store: TypeAlias = Callable[[Run, Outcome, OutputBytes], RuntimeError | None]
"""Stores an answer, and gives the error that the execution ends with, if any."""


class RequestState:
    """Whether a request is busy, and its last execution.

    Attributes:
        lock: Held while any of this changes, and by operations that need the request to stay idle: they call
            `check_idle` while they hold it.
        busy_with: The execution that has the request, until its outputs are stored, or it has failed or was given up.
        current: The last execution that began.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # Not a flag: giving up an execution that has ended must not make the request idle while the next one has it.
        self.busy_with: Run | None = None
        self.current: Run | None = None

    def __repr__(self) -> str:
        state = "idle" if self.busy_with is None else "busy"
        return f"<RequestState: {state}, {'never started' if self.current is None else repr(self.current)}>"

    def check_idle(self) -> None:
        """Refuse a busy request.

        Raises:
            RuntimeError: If it is busy.
        """
        if self.busy_with is not None:
            raise RuntimeError(BUSY)

    def claim(self, run: Run) -> None:
        """Make the request busy, for an execution that is being prepared.

        Raises:
            RuntimeError: If it is busy.
        """
        with self.lock:
            if self.busy_with is not None:
                raise RuntimeError(BUSY)
            self.busy_with = run

    def begin(self, run: Run) -> None:
        """Begin the execution that was claimed. Takes no lock: only the call that claimed the request comes here."""
        self.current = run

    def finish(self, run: Run, outcome: Outcome, data: OutputBytes, store: Store) -> bool:
        """Have an answer stored and make the request idle again; return False if the answer comes too late."""
        with self.lock:
            if self.busy_with is not run:
                return False
            run.error = store(run, outcome, data)
            self.busy_with = None
            run.execution = None
            return True

    def answer(self, run: Run, outcome: Outcome, data: OutputBytes) -> bool:
        """Keep the first answer for the thread that waits to store it; return False if it comes too late. Stay busy."""
        with self.lock:
            if self.busy_with is not run:
                return False
            if run.answer is None:
                run.answer = outcome, data
                run.execution = None
            return True

    def end(self, run: Run, error: RuntimeError | None) -> None:
        """Make the request idle again once its answer is stored, or could not be."""
        with self.lock:
            self._drop(run, error)

    def cancel(self, run: Run, error: RuntimeError) -> bool:
        """Give up an execution that runs; return False if it does not, or its answer is here already."""
        with self.lock:
            if self.busy_with is not run or run.answer is not None:
                return False
            self._drop(run, error)
        run.stop()
        return True

    def give_up(self, run: Run, error: RuntimeError) -> bool:
        """Make the request idle again, whatever `run` was doing; return False if `run` does not have the request.

        If it had claimed the request and not begun, `current` stays the execution before it.
        """
        with self.lock:
            if self.busy_with is not run:
                return False
            self._drop(run, error)
        run.stop()
        return True

    def _drop(self, run: Run, error: RuntimeError | None) -> None:
        run.answer = None
        run.error = error
        self.busy_with = None
