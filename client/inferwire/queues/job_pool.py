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

from inferwire.errors import QueueFull, anew
from inferwire.process import THIS
from inferwire.requests.awaiting import Handover
from inferwire.requests.callbacks import CALLBACK_THREADS
from inferwire.requests.infer_request import InferRequest
from inferwire.requests.request_state import BUSY
from inferwire.requests.run import FINALIZING, FORKED, Phase, Run

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
        # Which request each run has. One is taken and given back by a single call each, that nothing comes between: no
        # other thread, and no signal's handler, after which whoever gives a run up would not know what it had.
        self._held: dict[Run, int] = {}
        self._pops = iter(self._idle.popleft, None)
        # Those that users began themselves. They may share a request with the run in whose callback they were begun.
        self._direct: set[Run] = set()
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
        # Several may take one at once, and the lock is only for those that have to wait for it.
        if self._error is None and self._idle:
            try:
                return self._lend(run)
            except IndexError:
                pass
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
            if not self._turns:
                with suppress(IndexError):
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
            self._direct.add(run)
            self._held[run] = run.place = at
            with suppress(ValueError):
                self._idle.remove(at)

    def wait_all(self) -> None:
        """Wait until all requests are idle.

        Raises:
            RuntimeError: Inside a callback, whose own request is idle after it.
            BaseException: What went wrong since somebody last asked.
        """
        if self._called_back_here():
            raise RuntimeError("wait_all() inside a callback of the queue would never return")
        with CALLBACK_THREADS.blocking(), self._changed:
            self._wait_until_idle(len(self.requests))
            self._raise_error()

    def give_back(self, run: Run) -> None:
        """Take a job's request back, or its place in the line; nothing where it has neither any more."""
        if self._direct:
            self._leave(run)
        else:
            try:
                self._idle.extend(map(self._held.pop, (run,)))
            except KeyError:
                self._leave(run)
            if self._direct and self._is_shared(run.place, run):
                # Its user began it again meanwhile.
                with suppress(ValueError):
                    self._idle.remove(run.place)
        if self._refused:
            self._go_on(1)
        if self._turns or len(self._idle) >= self._enough:
            self._hand_out()

    def give_up(self, run: Run, error: BaseException) -> None:
        """Give up a job after an error in a step of it, however far that came."""
        at = self._held.get(run)
        if at is not None:
            self.runs[at].give_up(run, error)
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
        """Give the request that is idle longest to a job.

        Raises:
            IndexError: If none is.
        """
        self._held.update(zip((run,), self._pops, strict=False))
        run.place = at = self._held[run]
        return at

    def _called_back_here(self) -> set[int]:
        """Give the requests of which the calling thread runs the callbacks."""
        if not CALLBACK_THREADS.is_here():
            return set()
        here = threading.get_ident()
        return {at for run, at in tuple(self._held.items()) if run.callback_thread == here}

    def _leave(self, run: Run) -> None:
        """Take a run's request back that others may have as well, or its place in the line."""
        with self._lock:
            self._turns.pop(run, None)
            at = self._held.get(run)
            if at is not None and not self._is_shared(at, run):
                self._idle.extend(map(self._held.pop, (run,)))
            self._held.pop(run, None)
            self._direct.discard(run)

    def _is_shared(self, at: int, run: Run) -> bool:
        return any(place == at and each is not run for each, place in tuple(self._held.items()))

    def _wait_for_idle(self, take: Callable[[], int]) -> int:
        if len(self._called_back_here()) == len(self.requests):
            raise RuntimeError("waiting for a request inside the callback of the queue's only one would never return")
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
                run = next(iter(self._turns))
                turn = self._turns.pop(run)
                try:
                    at = self._lend(run)
                except IndexError:
                    # The next one that is given back comes here as well.
                    self._turns = {run: turn, **self._turns}
                    break
                if not turn.give(at):
                    self._idle.extend(map(self._held.pop, (run,)))
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


def _hold(weak_pool: Callable[[], JobPool | None], at: int, run: Run, is_started: bool) -> None:
    """Keep a request of a pool for an execution of its user's, unless nobody has the pool any more."""
    pool = weak_pool()
    if pool is not None:
        pool.hold(at, run, is_started)
