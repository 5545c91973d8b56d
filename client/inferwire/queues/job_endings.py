"""How the ends of a queue's jobs are reported: `JobEndings`.

Owns the queue's callbacks, and the first error that none of them was told, until somebody asks.
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
        userdata: What the last job of each request was given, by its position; None where nothing.
        on_done: Called after each job that succeeds.
        on_failed: Called after each job that fails; without it, `raise_error` tells of that.
        error: What went wrong first since somebody last asked.
    """

    def __init__(self, requests: Sequence[InferRequest]) -> None:
        self.userdata: list[Any] = [None] * len(requests)
        self.on_done: Callback | None = None
        self.on_failed: ErrorCallback | None = None
        self.error: BaseException | None = None
        self._requests = requests
        # Reentrant, since garbage collection may end a task's job while it is held.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<JobEndings: {'no error' if self.error is None else repr(self.error)}>"

    def call_back(self, at: int) -> None:
        """Run the user's callback after a job of the request at a position has succeeded."""
        try:
            if self.on_done is not None:
                self.on_done(self._requests[at], self.userdata[at])
        except BaseException as error:  # noqa: BLE001 - raised again by the next call that asks
            self._note(error)

    def failed(self, run: Run, reason: RuntimeError) -> None:
        """Call back with why a job failed, or keep that for a call to raise; then give its request back."""
        error = anew(reason)
        if self.on_failed is not None:
            CALLBACK_THREADS.run(partial(self._call_back_failed, run, self.on_failed, error))
            return
        self._note(error)
        run.give_back()

    def raise_error(self) -> None:
        """Raise what went wrong since somebody last asked, with its type, and forget it."""
        with self._lock:
            error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            # Its traceback leads to this frame.
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
        """Keep what went wrong first, for the next call that raises it."""
        with self._lock:
            self.error = self.error or error
