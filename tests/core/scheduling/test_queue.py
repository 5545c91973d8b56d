"""A model's queues against a search among all that waits."""

from __future__ import annotations

from itertools import count
from operator import itemgetter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferwire_server.core.callers import at_host
from inferwire_server.core.scheduling.caller_turns import CallerTurns, InOrder
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.scheduling.queue import JobQueue


def make_job(
    priority: int = 0, deadline: float | None = None, caller: str | None = None, executions: int = 1, size: int = 0
) -> Job:
    work = Work((), (), executions=executions, carried_bytes=size)
    return Job("m", work, 0.0, priority, deadline, caller=None if caller is None else at_host(caller))


def jobs_of(caller: str, count: int, priority: int = 0) -> list[Job]:
    return [make_job(priority, caller=caller) for _ in range(count)]


def pushed(*jobs: Job) -> JobQueue:
    queue = JobQueue()
    for job in jobs:
        queue.push(job)
    return queue


def popped(queue: JobQueue) -> list[Job]:
    return [queue.pop() for _ in range(len(queue))]


def test_an_empty_queue_has_no_first_and_nothing_to_pop() -> None:
    queue = JobQueue()
    assert queue.first_rank is None
    assert len(queue) == 0
    assert queue.rows == 0
    with pytest.raises(IndexError):
        queue.pop()
    assert queue.first is None
    with pytest.raises(IndexError):
        assert queue.oldest
    assert queue.first_deadline is None


def test_removing_what_does_not_wait_is_an_error() -> None:
    with pytest.raises(KeyError):
        JobQueue().remove(make_job())


def test_queues_that_share_arrivals_can_be_compared() -> None:
    arrivals = count()
    one, other = JobQueue(CallerTurns(arrivals)), JobQueue(InOrder(arrivals))
    one.push(make_job())
    other.push(make_job())
    assert one.first_rank is not None
    assert other.first_rank is not None
    assert one.first_rank < other.first_rank


def test_many_removed_jobs_are_not_kept_and_the_others_go_in_order() -> None:
    queue = JobQueue()
    jobs = [make_job(priority=index % 7, caller=f"{index}") for index in range(100)]
    kept = jobs[:20]
    for job in jobs:
        queue.push(job)
    for job in jobs[20:]:
        queue.remove(job)
    assert len(queue._heap) <= 48  # pyright: ignore[reportPrivateUsage]
    assert popped(queue) == sorted(kept, key=lambda job: -job.priority)


def test_callers_take_turns_however_many_jobs_one_of_them_has() -> None:
    a1, a2, a3, a4 = jobs_of("a", 4)
    b1, b2 = jobs_of("b", 2)
    (c1,) = jobs_of("c", 1)
    assert popped(pushed(a1, a2, a3, a4, b1, b2, c1)) == [a1, b1, c1, a2, b2, a3, a4]


def test_who_comes_later_waits_for_one_job_of_each_caller_and_keeps_none_of_them_out() -> None:
    flood, order = jobs_of("a", 4), list[Job]()
    queue = pushed(*flood)
    for _ in range(3):
        (single,) = jobs_of("b", 1)
        queue.push(single)
        order += [queue.pop(), queue.pop()]
    assert order[::2] == flood[:3]
    assert [job.caller for job in order[1::2]] == [at_host("b")] * 3


def test_urgent_jobs_go_before_all_turns_and_cost_their_caller_none() -> None:
    a1, a2 = jobs_of("a", 2)
    b1, b2 = jobs_of("b", 2)
    urgent = jobs_of("a", 3, priority=1)
    assert popped(pushed(a1, a2, b1, b2, *urgent)) == [*urgent, a1, b1, a2, b2]


def test_a_caller_that_cancels_its_first_job_has_its_turn_with_its_next() -> None:
    a1, a2 = jobs_of("a", 2)
    b1, b2 = jobs_of("b", 2)
    queue = pushed(a1, b1, b2, a2)
    queue.remove(a1)
    assert popped(queue) == [b1, a2, b2]


def test_callers_that_are_not_told_apart_take_no_turns() -> None:
    jobs = [make_job() for _ in range(3)]
    (late,) = jobs_of("a", 1)
    assert popped(pushed(*jobs, late)) == [*jobs, late]


def test_a_caller_that_cancels_all_its_jobs_lines_up_anew() -> None:
    a1, a2 = jobs_of("a", 2)
    (b1,) = jobs_of("b", 1)
    queue = pushed(a1, b1)
    queue.remove(a1)
    queue.push(a2)
    assert popped(queue) == [b1, a2]


def test_a_caller_has_its_turn_in_one_of_the_queues_that_share_turns() -> None:
    turns = CallerTurns()
    one, other = JobQueue(turns), JobQueue(turns)
    a1, a2, a3 = jobs_of("a", 3)
    (b1,) = jobs_of("b", 1)
    for queue, job in ((one, a1), (other, a2), (one, a3), (other, b1)):
        queue.push(job)
    order: list[Job] = []
    while ranks := [(queue.first_rank, queue) for queue in (one, other) if len(queue)]:
        order.append(min(ranks, key=itemgetter(0))[1].pop())
    assert order == [a1, b1, a2, a3]


def test_a_queue_in_order_knows_no_turns() -> None:
    a1, a2 = jobs_of("a", 2)
    (b1,) = jobs_of("b", 1, priority=1)
    queue = JobQueue(InOrder())
    for job in (a1, a2, b1):
        queue.push(job)
    assert popped(queue) == [a1, a2, b1]


class QueueMachine(RuleBasedStateMachine):
    """Pushes, pops and removals in any order, on two queues that share turns, compared with looking at all jobs."""

    def __init__(self) -> None:
        super().__init__()
        turns = CallerTurns()
        self.queues = [JobQueue(turns) for _ in range(2)]
        self.waiting: list[tuple[Job, int]] = []
        self.rows: dict[Job, int] = {}
        self.arrivals: dict[Job, int] = {}
        self.served: dict[tuple[object, int], int] = {}
        self.now = count()

    def rank(self, job: Job) -> tuple[int, int, int]:
        arrival = self.arrivals[job]
        return -job.priority, max(arrival, self.served.get((job.caller, job.priority), 0)), arrival

    def of(self, queue: int) -> list[Job]:
        return [job for job, where in self.waiting if where == queue]

    @rule(
        queue=st.integers(0, 1),
        priority=st.integers(-1, 1),
        caller=st.sampled_from((None, "a", "b")),
        rows=st.integers(1, 3),
        deadline=st.none() | st.floats(0.0, 9.0),
        executions=st.integers(1, 3),
        size=st.integers(0, 3),
    )
    def push(
        self,
        queue: int,
        priority: int,
        caller: str | None,
        rows: int = 1,
        deadline: float | None = None,
        executions: int = 1,
        size: int = 0,
    ) -> None:
        job = make_job(priority, deadline, caller, executions, size)
        self.rows[job] = rows
        self.queues[queue].push(job, rows)
        self.waiting.append((job, queue))
        self.arrivals[job] = next(self.now)

    @rule(queue=st.integers(0, 1), copies=st.integers(5, 20))
    def push_many(self, queue: int, copies: int) -> None:
        for _ in range(copies):
            self.push(queue, 0, "a")

    @precondition(lambda self: self.waiting)
    @rule(queue=st.integers(0, 1))
    def pop(self, queue: int) -> None:
        if waiting := self.of(queue):
            first = min(waiting, key=self.rank)
            assert self.queues[queue].first is first
            assert self.queues[queue].pop() is first
            self.waiting.remove((first, queue))
            if first.caller is not None:
                self.served[first.caller, first.priority] = next(self.now)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def remove_some(self, data: st.DataObject) -> None:
        for index in data.draw(st.lists(st.integers(0, len(self.waiting) - 1), unique=True).map(sorted))[::-1]:
            job, queue = self.waiting.pop(index)
            self.queues[queue].remove(job)
            assert job not in self.queues[queue]

    @invariant()
    def they_agree(self) -> None:
        for index, queue in enumerate(self.queues):
            waiting = self.of(index)
            assert len(queue) == len(waiting)
            assert queue.rows == sum(self.rows[job] for job in waiting)
            assert queue.executions == sum(job.work.executions for job in waiting)
            assert queue.carried_bytes == sum(job.work.carried_bytes for job in waiting)
            assert set(queue) == set(waiting)
            assert not waiting or queue.oldest is waiting[0]
            assert queue.first_deadline == min(
                (job.deadline for job in waiting if job.deadline is not None), default=None
            )
            assert queue.first_rank == min(map(self.rank, waiting), default=None)


TestQueueMachine = QueueMachine.TestCase
