"""A model's queue against a sorted list."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.scheduling.queue import JobQueue


def make_job(priority: int = 0, deadline: float | None = None) -> Job:
    return Job("m", Work((), ()), 0.0, priority, deadline)


def test_an_empty_queue_has_no_first_and_nothing_to_pop() -> None:
    queue = JobQueue()
    assert queue.first_rank is None
    assert len(queue) == 0
    assert queue.rows == 0
    with pytest.raises(IndexError):
        queue.pop()
    with pytest.raises(IndexError):
        assert queue.first
    with pytest.raises(IndexError):
        assert queue.oldest
    assert queue.first_deadline is None


def test_removing_what_does_not_wait_is_an_error() -> None:
    with pytest.raises(KeyError):
        JobQueue().remove(make_job())


def test_queues_that_share_arrivals_can_be_compared() -> None:
    arrivals = count()
    one, other = JobQueue(arrivals), JobQueue(arrivals)
    one.push(make_job())
    other.push(make_job())
    assert one.first_rank is not None
    assert other.first_rank is not None
    assert one.first_rank < other.first_rank


def test_many_removed_jobs_are_not_kept() -> None:
    queue = JobQueue()
    kept, *removed = jobs = [make_job() for _ in range(100)]
    for job in jobs:
        queue.push(job)
    for job in removed:
        queue.remove(job)
    assert len(queue._heap) <= 10  # pyright: ignore[reportPrivateUsage]
    assert queue.pop() is kept


class QueueMachine(RuleBasedStateMachine):
    """Pushes, pops and removals in any order, compared with sorting a list."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = JobQueue()
        self.waiting: list[Job] = []
        self.rows: dict[Job, int] = {}

    def in_order(self) -> list[Job]:
        return sorted(self.waiting, key=lambda job: -job.priority)

    @rule(priority=st.integers(-2, 2), rows=st.integers(1, 3), deadline=st.none() | st.floats(0.0, 9.0))
    def push(self, priority: int, rows: int = 1, deadline: float | None = None) -> None:
        job = make_job(priority, deadline)
        self.rows[job] = rows
        self.queue.push(job, rows)
        self.waiting.append(job)

    @rule(copies=st.integers(5, 20))
    def push_many(self, copies: int) -> None:
        for _ in range(copies):
            self.push(0)

    @precondition(lambda self: self.waiting)
    @rule()
    def pop(self) -> None:
        first = self.in_order()[0]
        assert self.queue.first is first
        assert self.queue.pop() is first
        self.waiting.remove(first)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def remove_some(self, data: st.DataObject) -> None:
        for index in data.draw(st.lists(st.integers(0, len(self.waiting) - 1), unique=True).map(sorted))[::-1]:
            job = self.waiting.pop(index)
            self.queue.remove(job)
            assert job not in self.queue

    @invariant()
    def they_agree(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert self.queue.rows == sum(self.rows[job] for job in self.waiting)
        assert set(self.queue) == set(self.waiting)
        assert all(job in self.queue for job in self.waiting)
        assert not self.waiting or self.queue.oldest is self.waiting[0]
        deadlines = [job.deadline for job in self.waiting if job.deadline is not None]
        assert self.queue.first_deadline == min(deadlines, default=None)
        first = self.in_order()[0] if self.waiting else None
        rank = self.queue.first_rank
        assert (None if rank is None else -rank[0]) == (None if first is None else first.priority)


TestQueueMachine = QueueMachine.TestCase
