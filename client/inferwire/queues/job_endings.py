"""Reports the ends of a queue's jobs: `JobEndings`.

Owns the queue's callbacks, and the first error that was given to none of them, until a call raises it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from inferwire.errors import anew
from inferwire.requests.callbacks import CALLBACK_THREADS
from inferwire.requests.infer_request import InferRequest
from inferwire.requests.run import Run

Callback: TypeAlias = Callable[[InferRequest, Any], object]
ErrorCallback: TypeAlias = Callable[[InferRequest, Any, RuntimeError], object]


class JobEndings:
    """Calls back as jobs end, and keeps the first error until a call raises it.

    Attributes:
        userdata: What the last job of each request was given, by the request's position; None if nothing.
        on_done: Called after each job that succeeds.
        on_failed: Called after each job that fails; without it, `raise_error` raises the error.
        error: The first error that no call has raised yet.
    """

    def __init__(self, requests: Sequence[InferRequest]) -> None:
        self.userdata: list[Any] = [None] * len(requests)
        self.on_done: Callback | None = None
        self.on_failed: ErrorCallback | None = None
        self.error: BaseException | None = None
        self._requests = requests
        # Reentrant, because garbage collection may end a task's job while this thread holds it.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<JobEndings: {'no error' if self.error is None else repr(self.error)}>"

    def succeeded(self, at: int) -> None:
        """Call back after a job of the request at a position, or keep what the callback raises for a call to raise."""
        try:
            if self.on_done is not None:
                self.on_done(self._requests[at], self.userdata[at])
        except BaseException as error:  # noqa: BLE001 - raised again by the next call that asks
            self._note(error)

    def failed(self, run: Run, reason: RuntimeError) -> None:
        """Call back with a job's error, or keep that for a call to raise; then give the job's request back."""
        error = anew(reason)
        if self.on_failed is not None:
            CALLBACK_THREADS.run(partial(self._call_back_failed, run, self.on_failed, error))
            return
        self._note(error)
        run.give_back()

    def raise_error(self) -> None:
        """Raise the error that no call has raised yet, with its own type, and forget it."""
        with self._lock:
            error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            # Its traceback refers to this frame, which must not refer back to it.
            del error

    def _call_back_failed(self, run: Run, callback: ErrorCallback, error: RuntimeError) -> None:
        run.callback_thread = threading.get_ident()
        try:
            callback(self._requests[run.position], self.userdata[run.position], error)
        except BaseException as raised:  # noqa: BLE001 - raised again by the next call that asks
            self._note(raised)
        finally:
            run.callback_thread = None
            run.give_back()

    def _note(self, error: BaseException) -> None:
        """Keep an error for the next call that raises errors, unless one is kept already."""
        with self._lock:
            self.error = self.error or error
