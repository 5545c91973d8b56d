"""The requests of a queue, which of them are idle, and which calls wait for one: `JobPool`.

What a request does is `infer_request`'s business, how a job's end is reported `job_endings`'. Nothing here refers to
the queue, so that it is freed as soon as the program drops it. Jobs in flight refer to the pool, which is freed with
the last of them.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from inferwire.errors import InferwireError
from inferwire.latch import SLICE_S
from inferwire.process import FINALIZING, THIS
from inferwire.queues.job_endings import JobEndings
from inferwire.queues.refused_jobs import RefusedJobs
from inferwire.requests.awaiting import Handover
from inferwire.requests.callbacks import CALLBACK_THREADS
from inferwire.requests.infer_request import InferRequest
from inferwire.requests.request_state import BUSY
from inferwire.requests.run import FORKED, Run

_NONE_WAITS = sys.maxsize
"""The value of `_fewest_awaited`, the fewest idle requests that a thread waits for, if no thread waits."""


class JobPool:
    """Gives out idle requests, and takes them back when their jobs have ended.

    Attributes:
        requests: All of them, by position.
        runs: Their executions.
        endings: Reports how jobs have ended.
        refused: The refused jobs that wait for the server. None if the model keeps states, where a refusal ends a job:
            the queue's own requests have the room that it wants, and never give it back.
    """

    def __init__(self, requests: Sequence[InferRequest]) -> None:
        self.requests = requests
        self.runs = [request.runs for request in requests]
        self.endings = JobEndings(requests)
        self.refused = None if requests[0].query_state() else RefusedJobs()
        # Reentrant, because garbage collection may end a task that has a job or waits for one while this thread has it.
        # The lock is entered and not the condition, in whose method a signal handler that raises would leave it locked.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._fewest_awaited = _NONE_WAITS
        # The runs that have each request, and the requests that no run has. Only `_lend`, `hold` and `_take_back`
        # change these. To all other threads and signal handlers, both change in one step: Python lets those in only
        # after a call has returned, when a loop begins anew and when a function is entered.
        self._taken_by: list[dict[Run, None]] = [{} for _ in requests]
        self._idle = deque(range(len(requests)))
        self._pops = iter(self._idle.popleft, None)
        self._pid = THIS.pid
        self._turns = OrderedDict[Run, Handover[int]]()
        for at, runs in enumerate(self.runs):
            runs.hold = partial(_hold, weakref.ref(self), at)

    def __repr__(self) -> str:
        return f"<JobPool: {len(self._idle)}/{len(self.requests)} idle>"

    @property
    def has_idle(self) -> bool:
        """Whether a request is idle."""
        return bool(self._idle)

    def check_idle(self) -> None:
        """Refuse an operation that needs all requests to be idle.

        Raises:
            RuntimeError: While a request is busy.
        """
        if len(self._idle) < len(self.requests):
            raise RuntimeError(BUSY)

    def take(self, run: Run) -> int:
        """Take an idle request for a job, waiting for one. If this is interrupted, `give_up` gives the request back.

        Raises:
            BaseException: The first error that no call has raised yet.
        """
        # Several threads may take one at once. Only those that have to wait need the lock.
        if self.endings.error is None and self._idle:
            try:
                return self._lend(run)
            except IndexError:
                pass
        return self._wait_for_idle(partial(self._lend, run))

    def first_idle(self) -> int:
        """Wait until a request is idle and give its position, without taking it.

        Raises:
            BaseException: The first error that no call has raised yet.
        """
        return self._wait_for_idle(lambda: self._idle[0])

    async def take_in_turn(self, run: Run) -> int:
        """Take an idle request for a job once there is one; tasks are served in the order in which they asked."""
        if not self._turns:
            with suppress(IndexError):
                return self._lend(run)
        turn = Handover[int]()
        try:
            self._turns[run] = turn
            self._hand_out()
            return await turn.wait()
        except BaseException:
            # The task's loop may not run again, and a request that the task was given would be lost.
            turn.leave()
            self._turns.pop(run, None)
            self.give_back(run)
            raise

    def hold(self, at: int, run: Run) -> None:
        """Take a request out of the pool that user code starts directly, even while a job has it.

        Unless the call that starts it waits for its end, that is reported as a job's is, except that a callback of the
        request's own is called in place of the queue's.
        """
        run.holder, run.is_direct = self, True
        if run.on_end is None and run.answer_latch is None:
            run.on_end = self.ended
            if self.endings.on_done is not None:
                run.callback, run.argument = self.endings.succeeded, at
        run.position, takers = at, self._taken_by[at]
        is_idle = not takers
        takers[run] = None
        if is_idle:
            self._idle.remove(at)

    def wait_all(self) -> None:
        """Wait until all requests are idle.

        Raises:
            RuntimeError: Inside a callback, whose own request becomes idle only after it.
            BaseException: The first error that no call has raised yet.
        """
        if self._called_back_here():
            raise RuntimeError("wait_all() inside a callback of the queue would never return")
        with CALLBACK_THREADS.blocking(), self._lock:
            self._wait_until_idle(len(self.requests))
            self.endings.raise_error()

    def give_back(self, run: Run) -> None:
        """Make a run's request idle again, unless another run has it too; do nothing if the run no longer has it."""
        is_idle = self._take_back(run)
        if is_idle and self.refused is not None and self.refused.waiting:
            self.refused.begin_again(1)
        if self._turns or len(self._idle) >= self._fewest_awaited:
            self._hand_out()

    def ended(self, run: Run) -> None:
        """Give back the request of a job that has ended; if it failed, after the failure was reported."""
        if run.error is None:
            self.give_back(run)
        else:
            self.endings.failed(run, run.error)

    def put_off(self, run: Run, refusal: InferwireError, again: Callable[[], object]) -> bool:
        """Have a refused job wait for the server; return False if that ends it, as it does what user code started."""
        if self.refused is None or run.is_direct:
            return False
        self.refused.put(run, refusal, again)
        return True

    def give_up(self, run: Run, error: BaseException) -> None:
        """Give up a job after an error in any of its steps."""
        if run.position >= 0:
            self.runs[run.position].give_up(run, error)

    def _lend(self, run: Run) -> int:
        """Give the request that has been idle longest to a job.

        Raises:
            IndexError: If none is.
        """
        for at in self._pops:
            run.position = at
            self._taken_by[at][run] = None
            break
        return run.position

    def _take_back(self, run: Run) -> bool:
        """Take its request from a run, if it has one, and tell whether that made it idle: no other run has it."""
        # A run that never had a request has position -1, that of the last one, which it is not a taker of.
        takers = self._taken_by[run.position]
        if run in takers:
            # A request refers to its last run, and must not keep the pool alive by that.
            run.holder = None
            del takers[run]
            if not takers:
                self._idle.append(run.position)
                return True
        return False

    def _called_back_here(self) -> set[int]:
        """Give the positions of the requests whose callbacks the calling thread is running."""
        if not CALLBACK_THREADS.is_here():
            return set()
        here = threading.get_ident()
        return {run.position for takers in self._taken_by for run in tuple(takers) if run.callback_thread == here}

    def _wait_for_idle(self, take: Callable[[], int]) -> int:
        if len(self._called_back_here()) == len(self.requests):
            raise RuntimeError("waiting for a request inside the callback of the queue's only one would never return")
        with CALLBACK_THREADS.blocking(), self._lock:
            while True:
                self._wait_until_idle(1)
                self.endings.raise_error()
                with suppress(IndexError):
                    return take()

    def _wait_until_idle(self, count: int) -> None:
        """Wait until so many requests are idle; raise if no thread of this process will make them so."""
        while True:
            # `give_back` makes a request idle and then reads this. We set it and then count the idle requests, so that
            # one of us sees the other.
            self._fewest_awaited = min(self._fewest_awaited, count)
            if len(self._idle) >= count:
                return
            if self._pid != THIS.pid:
                raise RuntimeError(FORKED)
            if sys.is_finalizing():
                raise RuntimeError(FINALIZING)
            self._changed.wait(SLICE_S)

    def _hand_out(self) -> None:
        """Give idle requests to the tasks that wait, and wake waiting threads if enough are left for one."""
        with self._lock:
            while self._turns and self._idle:
                try:
                    run, turn = self._turns.popitem(last=False)
                except KeyError:
                    # The last task has left the line at this moment.
                    break
                try:
                    at = self._lend(run)
                except IndexError:
                    # Another call has taken it. The next request that is given back comes here as well.
                    self._turns[run] = turn
                    with suppress(KeyError):  # its task may leave the line meanwhile
                        self._turns.move_to_end(run, last=False)
                    break
                if not turn.give(at):
                    self._take_back(run)
            if len(self._idle) >= self._fewest_awaited:
                # A thread that has to go on waiting sets it again.
                self._fewest_awaited = _NONE_WAITS
                self._changed.notify_all()


def _hold(weak_pool: Callable[[], JobPool | None], at: int, run: Run) -> None:
    """Have a pool hold a request that user code starts, unless the pool is gone."""
    pool = weak_pool()
    if pool is not None:
        pool.hold(at, run)
