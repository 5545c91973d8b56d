"""The requests of a queue: which of them are idle, and who waits for one: `JobPool`.

What a request does is `infer_request`'s business, what is told of a job's end `job_endings`'. Nothing here refers to
the queue, and what is in flight refers to the pool: a queue which nobody holds any more is freed at once, and the pool
with the last of its jobs.
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
from inferwire.process import FINALIZING, THIS
from inferwire.queues.job_endings import JobEndings
from inferwire.queues.refused_jobs import RefusedJobs
from inferwire.requests.awaiting import Handover
from inferwire.requests.callbacks import CALLBACK_THREADS
from inferwire.requests.infer_request import InferRequest
from inferwire.requests.request_state import BUSY
from inferwire.requests.run import FORKED, Run

_NONE_WAITS = sys.maxsize
"""The fewest idle requests that a thread waits for, where no thread waits for any."""


class JobPool:
    """Gives out idle requests, and takes them back when their jobs have ended.

    Attributes:
        requests: All of them, by position.
        runs: Their executions.
        endings: Reports how jobs have ended.
        refused: The jobs that wait for the server; None where a refusal is their end. Requests that keep states have
            taken the room that one of them wants, and give it back to nobody.
    """

    def __init__(self, requests: Sequence[InferRequest]) -> None:
        self.requests = requests
        self.runs = [request.runs for request in requests]
        self.endings = JobEndings(requests)
        self.refused = None if requests[0].query_state() else RefusedJobs()
        # Reentrant, since garbage collection may end a task that has a job or waits for one. It is what is entered, and
        # not the condition, in whose method a signal's handler that raises would leave it taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._fewest_awaited = _NONE_WAITS
        # The runs that have each request, and the requests that no run has. `_lend`, `hold` and `_take_back` alone
        # change these, both in one step for all threads and signals' handlers: Python lets those in once a call has
        # returned, as a loop begins anew and as a function is entered, and nowhere else.
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
        """Refuse what may not happen while a job runs.

        Raises:
            RuntimeError: While a request is busy.
        """
        if len(self._idle) < len(self.requests):
            raise RuntimeError(BUSY)

    def take(self, run: Run) -> int:
        """Take an idle request for a job, waiting for one. Whatever interrupts this, giving the job up gives it back.

        Raises:
            BaseException: What went wrong since somebody last asked.
        """
        # Several may take one at once, and the lock is only for those that have to wait for it.
        if self.endings.error is None and self._idle:
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
        if not self._turns:
            with suppress(IndexError):
                return self._lend(run)
        turn = Handover[int]()
        try:
            self._turns[run] = turn
            self._hand_out()
            return await turn.wait()
        except BaseException:
            # Its loop may run no more, and what it was given would not come back.
            turn.leave()
            self._turns.pop(run, None)
            self.give_back(run)
            raise

    def hold(self, at: int, run: Run) -> None:
        """Take a request out of the pool that user code starts directly, even while a job has it.

        Unless that call waits for it, its end is reported as a job's is, but to a callback of the request's own.
        """
        run.holder, run.is_direct = self, True
        if run.on_end is None and run.answer_latch is None:
            run.on_end = self.ended
            if self.endings.on_done is not None:
                run.callback, run.argument = self.endings.call_back, at
        run.position, takers = at, self._taken_by[at]
        is_idle = not takers
        takers[run] = None
        if is_idle:
            self._idle.remove(at)

    def wait_all(self) -> None:
        """Wait until all requests are idle.

        Raises:
            RuntimeError: Inside a callback, whose own request is idle after it.
            BaseException: What went wrong since somebody last asked.
        """
        if self._called_back_here():
            raise RuntimeError("wait_all() inside a callback of the queue would never return")
        with CALLBACK_THREADS.blocking(), self._lock:
            self._wait_until_idle(len(self.requests))
            self.endings.raise_error()

    def give_back(self, run: Run) -> None:
        """Make a run's request idle again, unless another run has it as well; nothing if it has none any more."""
        is_idle = self._take_back(run)
        if is_idle and self.refused is not None and self.refused.waiting:
            self.refused.begin_again(1)
        if self._turns or len(self._idle) >= self._fewest_awaited:
            self._hand_out()

    def ended(self, run: Run) -> None:
        """Give back what has ended and nobody awaits, once those were told of a failure who are to be."""
        if run.error is None:
            self.give_back(run)
        else:
            self.endings.failed(run, run.error)

    def put_off(self, run: Run, refusal: InferwireError, again: Callable[[], object]) -> bool:
        """Have a refused job wait for the server; false if the refusal is its end, as of a user's own."""
        if self.refused is None or run.is_direct:
            return False
        self.refused.put(run, refusal, again)
        return True

    def give_up(self, run: Run, error: BaseException) -> None:
        """Give up a job after an error in any of its steps."""
        if run.position >= 0:
            self.runs[run.position].give_up(run, error)

    def _lend(self, run: Run) -> int:
        """Give the request that is idle longest to a job.

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
        # Where it never had one, its position is that of the last, which it does not have.
        takers = self._taken_by[run.position]
        if run in takers:
            # A request keeps its last run, and may not keep its queue by that.
            run.holder = None
            del takers[run]
            if not takers:
                self._idle.append(run.position)
                return True
        return False

    def _called_back_here(self) -> set[int]:
        """Give the requests of which the calling thread runs the callbacks."""
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
            # `give_back` makes one idle and then reads this; here it is set, and then they are counted: one sees it.
            self._fewest_awaited = min(self._fewest_awaited, count)
            if len(self._idle) >= count:
                return
            if self._pid != THIS.pid:
                raise RuntimeError(FORKED)
            if sys.is_finalizing():
                raise RuntimeError(FINALIZING)
            self._changed.wait()

    def _hand_out(self) -> None:
        """Give what is idle to the tasks that wait for it, and wake the threads for which it is enough."""
        with self._lock:
            while self._turns and self._idle:
                try:
                    run, turn = self._turns.popitem(last=False)
                except KeyError:
                    # The last one has left the line this moment.
                    break
                try:
                    at = self._lend(run)
                except IndexError:
                    # The next one that is given back comes here as well.
                    self._turns[run] = turn
                    with suppress(KeyError):  # its task may leave the line meanwhile
                        self._turns.move_to_end(run, last=False)
                    break
                if not turn.give(at):
                    self._take_back(run)
            if len(self._idle) >= self._fewest_awaited:
                # A thread that waits for more sets it again.
                self._fewest_awaited = _NONE_WAITS
                self._changed.notify_all()


def _hold(weak_pool: Callable[[], JobPool | None], at: int, run: Run) -> None:
    """Keep a request of a pool for an execution of its user's, unless nobody has the pool any more."""
    pool = weak_pool()
    if pool is not None:
        pool.hold(at, run)
