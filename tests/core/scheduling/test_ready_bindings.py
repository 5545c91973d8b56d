"""Which of many bound callers is next: in order of rank, and found without a look at all of them."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from tests.core.scheduling.test_bindings import CANCELLED, DONE, BindingMachine, a_job, bind, starts

from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.bindings import Binding, BindingTerms
from inferwire_server.core.scheduling.effects import Effect
from inferwire_server.core.scheduling.job import Job, JobState
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.scheduling.ready_bindings import ReadyBindings
from inferwire_server.core.scheduling.scheduler import Scheduler


def a_scheduler(most: int = 1000) -> Scheduler:
    scheduler = Scheduler(capacity=2000)
    scheduler.add_model("m", 1, Terms(binding=BindingTerms(most=most, may_wait=True)))
    return scheduler


def calls_of_a_run(waiting: int) -> int:
    """Count the server's calls of its own functions as a run ends and the next begins, with so many callers bound."""
    scheduler = a_scheduler()
    slots = [slot for _ in range(waiting) for _, slot in starts(scheduler.submit(a_job(bind(scheduler)), 0.0))]
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_globals["__name__"].startswith("inferwire_server.")

    profiler = sys.getprofile()
    sys.setprofile(count)
    try:
        scheduler.report("m", slots[0], DONE, 1.0)
    finally:
        sys.setprofile(profiler)
    return calls


def test_a_run_costs_no_more_where_many_callers_wait() -> None:
    few, many = calls_of_a_run(3), calls_of_a_run(1000)
    assert many <= few


def test_they_are_in_order_and_change_their_places() -> None:
    ready = ReadyBindings()
    first, second = Binding("m", 0, print), Binding("m", 1, print)
    assert ready.first is None
    ready.put(second, (0, 2, 2))
    ready.put(first, (0, 1, 1))
    assert ready.first is first
    assert repr(ready) == "<ReadyBindings: 2>"
    ready.put(first, (0, 3, 3))
    assert ready.first is second
    ready.put(second, None)
    ready.put(second, None)
    assert ready.first is first


def test_a_caller_whose_first_job_is_cancelled_takes_the_place_of_its_next() -> None:
    scheduler = a_scheduler()
    hasty, patient = bind(scheduler), bind(scheduler)
    running, given_up, of_patient, of_hasty = a_job(None), a_job(hasty, priority=1), a_job(patient), a_job(hasty)
    for job in (running, given_up, of_patient, of_hasty):
        scheduler.submit(job, 0.0)
    scheduler.cancel(given_up, CANCELLED, 1.0)
    assert starts(scheduler.report("m", 0, DONE, 2.0)) == [(of_patient, 2)]
    assert starts(scheduler.report("m", 2, DONE, 3.0)) == [(of_hasty, 1)]


def test_who_inherits_a_slot_while_another_runs_is_next_by_the_rank_of_its_job() -> None:
    scheduler = a_scheduler(most=2)
    leaving, staying, heir = bind(scheduler), bind(scheduler), bind(scheduler)
    running, of_staying, of_heir = a_job(None), a_job(staying), a_job(heir, priority=1)
    for job in (running, of_staying, of_heir):
        scheduler.submit(job, 0.0)
    assert starts(scheduler.release(leaving, 1.0)) == []
    assert starts(scheduler.report("m", 0, DONE, 2.0)) == [(of_heir, 1)]
    assert starts(scheduler.report("m", 1, DONE, 3.0)) == [(of_staying, 2)]


def test_a_model_with_states_and_batches_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="model m keeps states and has batches; this is a bug"):
        Scheduler(1).add_model("m", 1, Terms(batching=Batching(4), binding=BindingTerms()))


class RankMachine(BindingMachine):
    """Any calls of callers, and no job starts before one that could have run and is more urgent, or older."""

    def __init__(self) -> None:
        super().__init__()
        self.arrivals: dict[Job, int] = {}

    def apply(self, effects: list[Effect]) -> None:
        super().apply(effects)
        for job in self.jobs():
            self.arrivals.setdefault(job, len(self.arrivals))
        for started, _ in starts(effects):
            assert all(self.rank(started) < self.rank(job) for job in self.passed_over())

    def jobs(self) -> list[Job]:
        return [job for jobs in self.submitted.values() for job in jobs]

    def rank(self, job: Job) -> tuple[int, int]:
        return -job.priority, self.arrivals[job]

    def passed_over(self) -> list[Job]:
        """Those that wait though their slot is idle: of each binding its first, and all that have none."""
        firsts: dict[Binding | Job, Job] = {}
        for job in self.jobs():
            if job.state is JobState.QUEUED:
                firsts.setdefault(job.binding or job, job)
        return [job for job in firsts.values() if job.binding is None or self.finds_idle_slot(job.binding)]

    def finds_idle_slot(self, binding: Binding) -> bool:
        return binding.slot is not None and binding.slot not in self.running


TestRankMachine = RankMachine.TestCase
