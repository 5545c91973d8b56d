"""When jobs expire, against a sorted list; and that those which have ended are not kept."""

from __future__ import annotations

from weakref import WeakSet

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.deadlines import Deadlines
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.errors import ServingError


def a_job(deadline: float) -> Job:
    return Job("m", Work((), ()), 0.0, deadline=deadline)


def end(job: Job) -> None:
    job.end(ServingError(Code.CANCELLED, "cancelled by the test"), 0.0)


def test_without_jobs_nothing_expires() -> None:
    deadlines = Deadlines()
    assert (deadlines.open, deadlines.next, deadlines.pop_due(1.0)) == (0, None, None)


def test_jobs_that_have_ended_are_not_kept_for_one_that_expires_before_them() -> None:
    deadlines, slow, kept = Deadlines(), a_job(60.0), WeakSet[Job]()
    deadlines.add(slow, 60.0)
    for _ in range(1000):
        brief = a_job(300.0)
        kept.add(brief)
        deadlines.add(brief, 300.0)
        end(brief)
        deadlines.ended()
    assert repr(deadlines) == "<Deadlines: 1 jobs>"
    assert len(kept) <= 10
    assert deadlines.pop_due(60.0) == (slow, 60.0)


def test_once_all_have_ended_none_is_kept() -> None:
    deadlines, jobs = Deadlines(), [a_job(60.0), a_job(300.0)]
    for job in jobs:
        deadlines.add(job, 60.0)
    for job in jobs:
        end(job)
        deadlines.ended()
    kept = WeakSet(jobs)
    jobs.clear()
    job = None
    assert (len(kept), deadlines.open) == (0, 0)


class DeadlinesMachine(RuleBasedStateMachine):
    """Jobs that come, end and expire in any order, compared with sorting a list."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines = Deadlines()
        self.open: list[tuple[float, Job]] = []
        self.kept = WeakSet[Job]()

    @rule(times=st.lists(st.integers(0, 9), min_size=1, max_size=20))
    def add(self, times: list[int]) -> None:
        for deadline in times:
            job = a_job(deadline)
            self.kept.add(job)
            self.deadlines.add(job, deadline)
            self.open.append((deadline, job))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end_some(self, data: st.DataObject) -> None:
        for index in data.draw(st.lists(st.integers(0, len(self.open) - 1), unique=True).map(sorted))[::-1]:
            self._end(self.open.pop(index)[1])

    @rule(now=st.integers(0, 9))
    def expire(self, now: int) -> None:
        due = sorted((entry for entry in self.open if entry[0] <= now), key=lambda entry: entry[0])
        for deadline, job in due:
            assert self.deadlines.pop_due(now) == (job, deadline)
            self._end(job)
        assert self.deadlines.pop_due(now) is None
        self.open = [entry for entry in self.open if entry[0] > now]

    @invariant()
    def the_first_is_next(self) -> None:
        assert self.deadlines.next == min((deadline for deadline, _ in self.open), default=None)

    @invariant()
    def few_are_kept_that_have_ended(self) -> None:
        assert len(self.kept) <= 2 * len(self.open) + 8

    def _end(self, job: Job) -> None:
        end(job)
        self.deadlines.ended()


TestDeadlinesMachine = DeadlinesMachine.TestCase
