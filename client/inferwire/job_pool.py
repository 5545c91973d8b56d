"""The requests of a queue as a pool of jobs: which are idle, who waits for one, and what went wrong: `JobPool`.

What a request does is `infer_request`'s business. Nothing here refers to the queue: what is in flight refers to the
pool, so that a queue which nobody holds any more is freed at once, and the pool with the last of its jobs.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from inferwire.awaiting import Handover
from inferwire.callbacks import CALLBACK_THREADS
from inferwire.errors import QueueFull, anew
from inferwire.infer_request import InferRequest
from inferwire.process import THIS
from inferwire.request_state import BUSY, FINALIZING, FORKED, Phase, Run

Callback: TypeAlias = Callable[[InferRequest, Any], object]
ErrorCallback: TypeAlias = Callable[[InferRequest, Any, RuntimeError], object]

_ROOM_AFTER_S = 0.1
"""After how long a job is started again that the server had no room for, where the server does not say."""

_NOBODY = sys.maxsize
"""How many requests have to be idle for those who wait, where nobody does."""


class JobPool:
    """Gives out idle requests, and takes them back when their jobs have ended.

    Attributes:
        requests: All of them, by position.
        runs: Their executions.
        userdata: What each was last given; None where nothing.
        callback: What is called after each job that succeeded.
        error_callback: What is called after each that failed; without one, whoever asks next hears of it.
        waits_for_room: Whether what the server has no room for begins again later. Requests that keep states have taken
            the room that one of them wants, and give it back to nobody.
    """

    def __init__(self, requests: Sequence[InferRequest]) -> None:
        self.requests = requests
        self.runs = [request.runs for request in requests]
        self.waits_for_room = not requests[0].query_state()
        self.userdata: list[Any] = [None] * len(requests)
        self.callback: Callback | None = None
        self.error_callback: ErrorCallback | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._enough = _NOBODY
        self._idle = deque(range(len(requests)))
        self._error: BaseException | None = None
        self._pid = THIS.pid
        self._turns: deque[Handover[int]] = deque()
        self._refused: deque[tuple[Run, Callable[[], object]]] = deque()
        self._is_room_awaited = False

    def __repr__(self) -> str:
        return f"<JobPool: {len(self._idle)}/{len(self.requests)} idle, {len(self._refused)} wait for room>"

    @property
    def has_idle(self) -> bool:
        """Whether a request is idle."""
        return bool(self._idle)

    def set_while_idle(self, name: str, value: object) -> None:
        """Set an attribute that jobs use.

        Raises:
            RuntimeError: While a request is busy.
        """
        with self._lock:
            if len(self._idle) < len(self.requests):
                raise RuntimeError(BUSY)
            setattr(self, name, value)

    def take(self) -> int:
        """Take an idle request, waiting for one.

        Raises:
            BaseException: What went wrong since somebody last asked.
        """
        # Several may take one at once, and the lock is only for those that have to wait for it.
        if self._error is None and self._idle:
            try:
                return self._idle.popleft()
            except IndexError:
                pass
        return self._wait_for_idle(self._idle.popleft)

    def first_idle(self) -> int:
        """Wait until a request is idle and give its position, without taking it.

        Raises:
            BaseException: What went wrong since somebody last asked.
        """
        return self._wait_for_idle(lambda: self._idle[0])

    async def take_in_turn(self) -> int:
        """Take an idle request once there is one; whoever asked first is first."""
        if not self._turns:
            with suppress(IndexError):
                return self._idle.popleft()
        turn = Handover[int](self.give_back)
        self._turns.append(turn)
        self._hand_out()
        return await turn.wait()

    def wait_all(self) -> None:
        """Wait until all requests are idle.

        Raises:
            BaseException: What went wrong since somebody last asked.
        """
        with CALLBACK_THREADS.blocking(), self._changed:
            self._wait_until_idle(len(self.requests))
            self._raise_error()

    def give_back(self, at: int) -> None:
        """Take a request back."""
        self._idle.append(at)
        if self._refused:
            self._go_on(1)
        if self._turns or len(self._idle) >= self._enough:
            self._hand_out()

    def call_back(self, at: int) -> None:
        """Run the user's callback; what it raises is kept for whoever asks next, with its type."""
        try:
            if self.callback is not None:
                self.callback(self.requests[at], self.userdata[at])
        except BaseException as error:  # noqa: BLE001 - raised again by the next call that asks
            self._note(error)

    def ended(self, at: int, run: Run) -> None:
        """Take a request back whose job has ended."""
        if run.error is None:
            self.give_back(at)
            return
        error = anew(run.error)
        if self.error_callback is None:
            self._note(error)
            self.give_back(at)
        else:
            CALLBACK_THREADS.run(partial(self._call_back_failed, at, self.error_callback, error))

    def _call_back_failed(self, at: int, callback: ErrorCallback, error: RuntimeError) -> None:
        try:
            callback(self.requests[at], self.userdata[at], error)
        except BaseException as raised:  # noqa: BLE001 - raised again by the next call that asks
            self._note(raised)
        finally:
            self.give_back(at)

    def wait_for_room(self, run: Run, refusal: QueueFull, again: Callable[[], object]) -> None:
        """Have a job submitted again once another of this pool has ended, or after a while where none does."""
        with self._lock:
            self._refused.append((run, again))
            if self._is_room_awaited:
                return
            self._is_room_awaited = True
        timer = threading.Timer(refusal.retry_after_s or _ROOM_AFTER_S, self._look_for_room)
        timer.daemon = True
        try:
            timer.start()
        except (RuntimeError, MemoryError):
            # The system gives no more threads for now.
            self._look_for_room()

    def _look_for_room(self) -> None:
        with self._lock:
            self._is_room_awaited = False
        self._go_on(len(self._refused))

    def _go_on(self, count: int) -> None:
        """Have so many of those go on that wait for room, but for what was cancelled, or is another process's."""
        with suppress(IndexError):
            while count > 0:
                run, again = self._refused.popleft()
                if run.phase is Phase.RUNNING and run.pid == THIS.pid:
                    CALLBACK_THREADS.run(again)
                    count -= 1

    def _wait_for_idle(self, take: Callable[[], int]) -> int:
        with CALLBACK_THREADS.blocking(), self._changed:
            while True:
                self._wait_until_idle(1)
                self._raise_error()
                with suppress(IndexError):
                    return take()

    def _wait_until_idle(self, count: int) -> None:
        """Wait until so many requests are idle, unless nothing in this process would see it."""
        while True:
            # Whoever gives one back looks at this afterwards, and we look at what is idle: one of us sees the other.
            self._enough = min(self._enough, count)
            if len(self._idle) >= count:
                return
            if self._pid != THIS.pid:
                raise RuntimeError(FORKED)
            if sys.is_finalizing():
                raise RuntimeError(FINALIZING)
            self._changed.wait()

    def _hand_out(self) -> None:
        """Give what is idle to the tasks that wait for it, and wake the threads for which it is enough."""
        with self._changed:
            while self._turns and self._idle:
                at = self._idle.popleft()
                if not self._turns.popleft().give(at):
                    self._idle.append(at)
            if len(self._idle) >= self._enough:
                # Those for whom it is not say again for how many they wait.
                self._enough = _NOBODY
                self._changed.notify_all()

    def _note(self, error: BaseException) -> None:
        """Keep what went wrong first for whoever asks next."""
        with self._lock:
            self._error = self._error or error

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            # Its traceback leads to this frame.
            del error
