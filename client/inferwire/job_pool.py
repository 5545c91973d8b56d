"""The requests of a queue as a pool of jobs: which are idle, who waits for one, and what went wrong: `JobPool`.

What a request does is `infer_request`'s business. Nothing here refers to the queue: what is in flight refers to the
pool, so that a queue which nobody holds any more is freed at once, and the pool with the last of its jobs.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What is called after each job of a queue.

    Attributes:
        done: Where it succeeded.
        failed: Where it failed; without one, whoever asks next hears of it.
    """

    done: Callback | None = None
    failed: ErrorCallback | None = None


class JobPool:
    """Gives out idle requests, and takes them back when their jobs have ended.

    Attributes:
        requests: All of them, by position.
        runs: Their executions.
        userdata: What each was last given; None where nothing.
        callbacks: What is called after each job.
        waits_for_room: Whether what the server has no room for begins again later. Requests that keep states have taken
            the room that one of them wants, and give it back to nobody.
    """

    def __init__(self, requests: Sequence[InferRequest]) -> None:
        self.requests = requests
        self.runs = [request.runs for request in requests]
        self.waits_for_room = not requests[0].query_state()
        self.userdata: list[Any] = [None] * len(requests)
        self.callbacks = Callbacks()
        # Reentrant, since garbage collection may end a task that has a job or waits for one. It may do so only where
        # containers are made, and where they are here, nothing is half done.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._enough = _NOBODY
        self._idle = deque(range(len(requests)))
        # Several have one request where a callback starts it again: it is idle once the last of them has ended.
        self._holders: list[list[Run]] = [[] for _ in requests]
        self._error: BaseException | None = None
        self._pid = THIS.pid
        self._turns: dict[Run, Handover[int]] = {}
        self._refused: deque[tuple[Run, Callable[[], object]]] = deque()
        self._is_room_awaited = False
        for at, runs in enumerate(self.runs):
            runs.hold = partial(_hold, weakref.ref(self), at)

    def __repr__(self) -> str:
        return f"<JobPool: {len(self._idle)}/{len(self.requests)} idle, {len(self._refused)} wait for room>"

    @property
    def has_idle(self) -> bool:
        """Whether a request is idle."""
        return bool(self._idle)

    def call_done(self, callback: Callback) -> None:
        """Have this called after each job that succeeds.

        Raises:
            RuntimeError: While a request is busy.
        """
        with self._lock:
            self._check_idle()
            self.callbacks = replace(self.callbacks, done=callback)

    def call_failed(self, callback: ErrorCallback) -> None:
        """Have this called after each job that fails.

        Raises:
            RuntimeError: While a request is busy.
        """
        with self._lock:
            self._check_idle()
            self.callbacks = replace(self.callbacks, failed=callback)

    def take(self, run: Run) -> int:
        """Take an idle request for a job, waiting for one. Whatever interrupts this, giving the job up gives it back.

        Raises:
            BaseException: What went wrong since somebody last asked.
        """
        with self._lock:
            if self._error is None and self._idle:
                return self._lend(run)
        return self._wait_for_idle(partial(self._lend, run))

    def first_idle(self) -> int:
        """Wait until a request is idle and give its position, without taking it.

        Raises:
            BaseException: What went wrong since somebody last asked.
        """
        return self._wait_for_idle(lambda: self._idle[0])

    async def take_in_turn(self, run: Run) -> int:
        """Take an idle request for a job once there is one; whoever asked first is first."""
        with self._lock:
            if self._idle and not self._turns:
                return self._lend(run)
            self._turns[run] = turn = Handover[int]()
            self._hand_out()
        try:
            return await turn.wait()
        except BaseException:
            # Its loop may run no more, and what it was given would not come back.
            self.give_back(run)
            raise

    def hold(self, at: int, run: Run, is_started: bool) -> None:
        """Keep a request for an execution that its user begins, though others may have it already.

        Where nobody waits for it there, its end is told as a job's is, but for a callback of the request's own.
        """
        run.release = self.give_back
        if is_started:
            run.on_end = self.ended
            if self.callbacks.done is not None:
                run.callback = partial(self.call_back, at)
        with self._lock:
            run.place = at
            self._holders[at].append(run)
            with suppress(ValueError):
                self._idle.remove(at)

    def wait_all(self) -> None:
        """Wait until all requests are idle.

        Raises:
            RuntimeError: Inside a callback, whose own request is idle after it.
            BaseException: What went wrong since somebody last asked.
        """
        if any(map(_calls_back_here, self._holders)):
            raise RuntimeError("wait_all() inside a callback of the queue would never return")
        with CALLBACK_THREADS.blocking(), self._changed:
            self._wait_until_idle(len(self.requests))
            self._raise_error()

    def give_back(self, run: Run) -> None:
        """Take a job's request back, or its place in the line; nothing where it has neither any more."""
        at = run.place
        with self._lock:
            if at < 0:
                self._turns.pop(run, None)
                return
            holders = self._holders[at]
            if run not in holders:
                return
            # One that was interrupted as it took it, or gave it back, may have left it here.
            if len(holders) == 1 and at not in self._idle:
                self._idle.append(at)
            if self._turns or len(self._idle) >= self._enough:
                self._hand_out()
            # At last, so that whoever is interrupted before can do it all again.
            holders.remove(run)
        if self._refused:
            self._go_on(1)

    def give_up(self, run: Run, error: BaseException) -> None:
        """Give up a job after an error in a step of it, however far that came."""
        if run.place >= 0:
            self.runs[run.place].give_up(run, error)
        run.give_back()

    def call_back(self, at: int) -> None:
        """Run the user's callback; what it raises is kept for whoever asks next, with its type."""
        try:
            if self.callbacks.done is not None:
                self.callbacks.done(self.requests[at], self.userdata[at])
        except BaseException as error:  # noqa: BLE001 - raised again by the next call that asks
            self._note(error)

    def ended(self, run: Run) -> bool:
        """Tell of a job that failed; tell whether its request is given back later."""
        if run.error is None:
            return False
        failed, error = self.callbacks.failed, anew(run.error)
        if failed is None:
            self._note(error)
            return False
        CALLBACK_THREADS.run(partial(self._call_back_failed, run, failed, error))
        return True

    def _call_back_failed(self, run: Run, callback: ErrorCallback, error: RuntimeError) -> None:
        run.callback_thread = threading.get_ident()
        try:
            callback(self.requests[run.place], self.userdata[run.place], error)
        except BaseException as raised:  # noqa: BLE001 - raised again by the next call that asks
            self._note(raised)
        finally:
            run.callback_thread = None
            run.give_back()

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

    def _check_idle(self) -> None:
        if len(self._idle) < len(self.requests):
            raise RuntimeError(BUSY)

    def _lend(self, run: Run) -> int:
        """Give the request that is idle longest to a job; the lock is held."""
        run.place = at = self._idle[0]
        self._holders[at].append(run)
        self._idle.popleft()
        return at

    def _wait_for_idle(self, take: Callable[[], int]) -> int:
        if all(map(_calls_back_here, self._holders)):
            raise RuntimeError("waiting for a request inside the callback of the queue's only one would never return")
        with CALLBACK_THREADS.blocking(), self._changed:
            self._wait_until_idle(1)
            self._raise_error()
            return take()

    def _wait_until_idle(self, count: int) -> None:
        """Wait until so many requests are idle, unless nothing in this process would see it."""
        while True:
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
                run = next(iter(self._turns))
                turn = self._turns.pop(run)
                at = self._lend(run)
                if not turn.give(at):
                    self._holders[at].remove(run)
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


def _calls_back_here(holders: Sequence[Run]) -> bool:
    """Whether the calling thread runs the callback of one of these."""
    here = threading.get_ident()
    return any(run.callback_thread == here for run in holders)


def _hold(weak_pool: Callable[[], JobPool | None], at: int, run: Run, is_started: bool) -> None:
    """Keep a request of a pool for an execution of its user's, unless nobody has the pool any more."""
    pool = weak_pool()
    if pool is not None:
        pool.hold(at, run, is_started)
