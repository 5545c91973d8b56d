"""The scheduler against a naive model of it, and its rules one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from weakref import WeakSet

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.bindings import BindingTerms
from inferwire_server.core.scheduling.effects import Drained, Effect, End, Start, Stop
from inferwire_server.core.scheduling.fairness import CREDIT_S
from inferwire_server.core.scheduling.job import Job, JobState, Work
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.errors import ServingError

CANCELLED = ServingError(Code.CANCELLED, "cancelled by the test")
DONE = ((),)
"""The outcome of a run of one job: its outputs, none."""
GONE = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")


def make_job(
    model: str, now: float = 0.0, priority: int = 0, deadline: float | None = None, carried_bytes: int = 0
) -> Job:
    return Job(model, Work((), (), carried_bytes=carried_bytes), now, priority, deadline)


def started(effects: Iterable[Effect]) -> list[Job]:
    return [job for effect in effects if isinstance(effect, Start) for job in effect.jobs]


def ended(effects: Iterable[Effect]) -> list[Job]:
    return [effect.job for effect in effects if isinstance(effect, End)]


def a_scheduler(capacity: int = 8, limit: int | None = None, **slots: int) -> Scheduler:
    scheduler = Scheduler(capacity, limit, "CPU")
    for model, count in slots.items():
        scheduler.add_model(model, count)
    return scheduler


def test_a_job_starts_at_once_where_a_slot_is_idle() -> None:
    scheduler = a_scheduler(a=1)
    job = make_job("a")
    assert scheduler.submit(job, 1.0) == [Start((job,), 0)]
    assert (job.state, job.started_at) == (JobState.RUNNING, 1.0)


def test_jobs_of_one_model_start_in_the_order_they_came() -> None:
    scheduler = a_scheduler(a=1)
    first, second, third = (make_job("a") for _ in range(3))
    for job in (first, second, third):
        scheduler.submit(job, 0.0)
    assert started(scheduler.report("a", 0, DONE, 1.0)) == [second]
    assert started(scheduler.report("a", 0, DONE, 2.0)) == [third]


def test_an_urgent_job_starts_before_older_ones() -> None:
    scheduler = a_scheduler(a=1)
    scheduler.submit(make_job("a"), 0.0)
    normal, urgent = make_job("a"), make_job("a", priority=1)
    scheduler.submit(normal, 0.0)
    scheduler.submit(urgent, 0.0)
    assert started(scheduler.report("a", 0, DONE, 1.0)) == [urgent]


def test_a_job_whose_model_is_busy_does_not_hold_up_another_models() -> None:
    scheduler = a_scheduler(limit=2, a=1, b=1)
    scheduler.submit(make_job("a"), 0.0)
    scheduler.submit(make_job("a"), 0.0)
    other = make_job("b")
    assert started(scheduler.submit(other, 0.0)) == [other]


def test_the_limit_holds_across_models() -> None:
    scheduler = a_scheduler(a=2, b=1)
    assert (scheduler.occupancy.slots, scheduler.capacity) == (2, 8)
    scheduler.submit(make_job("a"), 0.0)
    scheduler.submit(make_job("a"), 0.0)
    waiting = make_job("b")
    assert scheduler.submit(waiting, 0.0) == []
    assert started(scheduler.report("a", 0, DONE, 1.0)) == [waiting]


def test_the_limit_follows_the_models_that_are_there() -> None:
    scheduler = a_scheduler(a=1, b=3)
    scheduler.remove_model("b", GONE, 0.0)
    assert scheduler.occupancy.slots == 1
    scheduler.remove_model("a", GONE, 0.0)
    assert scheduler.occupancy.slots == 0


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    scheduler = a_scheduler(capacity=1, a=1)
    scheduler.submit(make_job("a"), 0.0)
    scheduler.submit(make_job("a"), 0.0)
    refused = make_job("a")
    with pytest.raises(ServingError) as caught:
        scheduler.submit(refused, 0.0)
    assert (caught.value.code, caught.value.retry_after_s) == (Code.QUEUE_FULL, 1.0)
    assert caught.value.message == (
        "CPU's queue is full: 1 jobs are waiting, at most 1 may (--queue-capacity); try again in 1 s"
    )
    assert refused.state is JobState.QUEUED
    assert scheduler.occupancy == Occupancy(running=1, slots=1, queued=1)


def of_mebibytes(count: int, model: str = "a") -> Job:
    return make_job(model, carried_bytes=count << 20)


def test_a_queue_is_full_when_the_inputs_that_wait_take_as_much_as_may() -> None:
    scheduler = Scheduler(8, None, "CPU", most_bytes=10 << 20)
    scheduler.add_model("a", 1)
    running, large, cancelled = (of_mebibytes(count) for count in (100, 6, 4))
    for job in (running, large, cancelled):
        scheduler.submit(job, 0.0)
    for count in (1, 5):
        with pytest.raises(ServingError) as caught:
            scheduler.submit(of_mebibytes(count), 0.0)
        assert (caught.value.code, caught.value.retry_after_s) == (Code.QUEUE_FULL, 1.0)
        assert caught.value.message == (
            "CPU's queue is full: the inputs of waiting jobs take 10 MiB, at most 10 may be taken (--max-queued-mb);"
            " try again in 1 s"
        )
    scheduler.cancel(cancelled, GONE, 0.0)
    scheduler.submit(of_mebibytes(4), 0.0)
    assert started(scheduler.report("a", 0, DONE, 1.0)) == [large]
    scheduler.submit(of_mebibytes(6), 1.0)
    with pytest.raises(ServingError, match="take 10 MiB"):
        scheduler.submit(of_mebibytes(1), 1.0)


def test_what_takes_more_than_may_wait_at_all_waits_alone() -> None:
    scheduler = Scheduler(8, None, "CPU", most_bytes=10 << 20)
    scheduler.add_model("a", 1)
    scheduler.submit(of_mebibytes(1), 0.0)
    scheduler.submit(of_mebibytes(11), 0.0)
    with pytest.raises(ServingError, match="take 11 MiB, at most 10 may"):
        scheduler.submit(of_mebibytes(0), 0.0)
    scheduler.end_waiting("a", GONE, 0.0)
    scheduler.submit(of_mebibytes(10), 0.0)
    assert scheduler.occupancy.queued == 1


def test_a_model_whose_inputs_fill_the_queue_does_not_shut_another_out() -> None:
    scheduler = Scheduler(8, 1, "CPU", most_bytes=10 << 20)
    for model in ("a", "b"):
        scheduler.add_model(model, 1)
    for job in (of_mebibytes(1), of_mebibytes(9), of_mebibytes(3, "b"), of_mebibytes(2, "b")):
        scheduler.submit(job, 0.0)
    for model in ("a", "b"):
        with pytest.raises(ServingError, match="take 14 MiB, at most 10 may"):
            scheduler.submit(of_mebibytes(1, model), 0.0)


def test_a_model_that_fills_the_queue_does_not_shut_another_out() -> None:
    scheduler = a_scheduler(capacity=4, limit=1, a=1, b=1)
    for _ in range(5):
        scheduler.submit(make_job("a"), 0.0)
    for _ in range(2):
        scheduler.submit(make_job("b"), 0.0)
    for model in ("a", "b"):
        with pytest.raises(ServingError, match="6 jobs are waiting, at most 4 may"):
            scheduler.submit(make_job(model), 0.0)
    assert scheduler.occupancy_of("b").queued == 2


def test_where_none_may_wait_a_job_runs_or_is_refused() -> None:
    scheduler = a_scheduler(capacity=0, a=1)
    job = make_job("a")
    assert started(scheduler.submit(job, 0.0)) == [job]
    with pytest.raises(ServingError, match="0 jobs are waiting, at most 0 may"):
        scheduler.submit(make_job("a"), 0.0)


def test_cancelling_a_queued_job_ends_it_and_it_never_runs() -> None:
    scheduler = a_scheduler(a=1)
    scheduler.submit(make_job("a"), 0.0)
    job = make_job("a")
    scheduler.submit(job, 0.0)
    assert scheduler.cancel(job, CANCELLED, 1.0) == [End(job)]
    assert job.state is JobState.CANCELLED
    assert scheduler.report("a", 0, DONE, 2.0)[1:] == []


def test_cancelling_a_running_job_ends_it_at_once_and_its_slot_when_it_reports() -> None:
    scheduler = a_scheduler(a=1)
    job, next_job = make_job("a"), make_job("a")
    scheduler.submit(job, 0.0)
    scheduler.submit(next_job, 0.0)
    assert scheduler.cancel(job, CANCELLED, 1.0) == [End(job), Stop("a", 0)]
    assert scheduler.occupancy.running == 1
    assert scheduler.report("a", 0, DONE, 2.0) == [Start((next_job,), 0)]
    assert job.state is JobState.CANCELLED


def test_cancelling_twice_changes_nothing() -> None:
    scheduler = a_scheduler(a=1)
    job = make_job("a")
    scheduler.submit(job, 0.0)
    scheduler.cancel(job, CANCELLED, 1.0)
    assert scheduler.cancel(job, CANCELLED, 2.0) == []
    assert job.ended_at == 1.0


def test_a_job_that_expires_in_the_queue_never_runs() -> None:
    scheduler = a_scheduler(a=1)
    scheduler.submit(make_job("a"), 0.0)
    job = make_job("a", now=2.5, deadline=5.0)
    scheduler.submit(job, 2.5)
    assert scheduler.next_wake == 5.0
    assert scheduler.wake(4.9) == []
    assert scheduler.wake(5.0) == [End(job)]
    assert job.state is JobState.EXPIRED
    assert job.error is not None
    assert job.error.message == "the time limit of 2.5 s passed while the job was queued on CPU"
    assert scheduler.next_wake is None


def test_a_time_limit_is_told_as_it_was_given_however_long_the_clock_has_run() -> None:
    scheduler = a_scheduler(a=1)
    now, limit_s = 1e7, 1e-5
    job = make_job("a", now=now, deadline=now + limit_s)
    scheduler.submit(job, now)
    scheduler.wake(now + limit_s)
    assert job.error is not None
    assert job.error.message == "the time limit of 1e-05 s passed while the job was running on CPU"


def test_a_job_whose_deadline_has_passed_as_a_slot_is_freed_never_runs() -> None:
    scheduler = a_scheduler(a=1)
    running, late = make_job("a"), make_job("a", deadline=5.0)
    scheduler.submit(running, 0.0)
    scheduler.submit(late, 0.0)
    assert scheduler.report("a", 0, DONE, 5.0) == [End(running), End(late)]
    assert (late.state, late.started_at) == (JobState.EXPIRED, None)


def test_a_job_that_expires_while_running_is_stopped() -> None:
    scheduler = a_scheduler(a=1)
    job = make_job("a", deadline=5.0)
    scheduler.submit(job, 0.0)
    assert scheduler.wake(5.0) == [End(job), Stop("a", 0)]
    assert job.state is JobState.EXPIRED
    assert job.error is not None
    assert job.error.message == "the time limit of 5 s passed while the job was running on CPU"


def test_jobs_that_have_ended_are_not_kept_until_their_deadline() -> None:
    scheduler = a_scheduler(limit=2, slow=1, a=1)
    scheduler.submit(make_job("slow", deadline=60.0), 0.0)
    kept = WeakSet[Job]()
    for _ in range(50):
        finished, withdrawn, stopped = jobs = [make_job("a", deadline=300.0) for _ in range(3)]
        kept.update(jobs)
        scheduler.submit(finished, 0.0)
        scheduler.submit(withdrawn, 0.0)
        scheduler.cancel(withdrawn, CANCELLED, 0.0)
        scheduler.report("a", 0, DONE, 0.0)
        scheduler.submit(stopped, 0.0)
        scheduler.cancel(stopped, CANCELLED, 0.0)
        scheduler.report("a", 0, DONE, 0.0)
    assert len(kept) <= 12
    assert scheduler.next_wake == 60.0


def test_a_failed_inference_fails_its_job_and_frees_its_slot() -> None:
    scheduler = a_scheduler(a=1)
    job, next_job = make_job("a"), make_job("a")
    scheduler.submit(job, 0.0)
    scheduler.submit(next_job, 0.0)
    failure = ServingError(Code.INFERENCE_FAILED, "no")
    assert scheduler.report("a", 0, (failure,), 1.0) == [End(job), Start((next_job,), 0)]
    assert (job.state, job.error) == (JobState.FAILED, failure)


def test_a_removed_model_ends_what_waits_and_drains_when_the_last_job_has_run() -> None:
    scheduler = a_scheduler(a=1)
    running, waiting = make_job("a"), make_job("a")
    scheduler.submit(running, 0.0)
    scheduler.submit(waiting, 0.0)
    assert scheduler.remove_model("a", GONE, 1.0) == [End(waiting)]
    with pytest.raises(ServingError, match="is unloading"):
        scheduler.submit(make_job("a"), 1.0)
    assert scheduler.report("a", 0, DONE, 2.0) == [End(running), Drained("a")]
    assert running.state is JobState.FINISHED
    with pytest.raises(ServingError, match="model 'a' is unloading") as refused:
        scheduler.submit(make_job("a"), 3.0)
    assert refused.value.code is Code.MODEL_NOT_READY


def test_an_idle_model_is_drained_as_it_is_removed() -> None:
    assert a_scheduler(a=1).remove_model("a", GONE, 0.0) == [Drained("a")]


def test_cancelling_a_job_of_a_model_that_has_gone_changes_nothing() -> None:
    scheduler = a_scheduler(limit=1, a=1, b=1)
    scheduler.submit(make_job("a"), 0.0)
    scheduler.remove_model("b", GONE, 0.0)
    late = make_job("b")
    assert scheduler.cancel(late, CANCELLED, 0.0) == []
    assert late.state is JobState.QUEUED


def test_the_jobs_it_gives_are_those_that_have_not_ended() -> None:
    scheduler = a_scheduler(a=1, b=1)
    running, stopped, waiting, withdrawn = (make_job(model) for model in "abaa")
    scheduler.submit(running, 0.0)
    scheduler.submit(waiting, 0.0)
    scheduler.submit(withdrawn, 0.0)
    scheduler.cancel(withdrawn, CANCELLED, 0.0)
    assert scheduler.jobs == (waiting, running)
    scheduler.cancel(running, CANCELLED, 0.0)
    scheduler.submit(stopped, 0.0)
    assert scheduler.jobs == (waiting, stopped)


def test_a_report_of_an_idle_slot_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="this is a bug"):
        a_scheduler(a=1).report("a", 0, DONE, 0.0)


def test_a_model_nobody_added_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="this is a bug"):
        a_scheduler().remove_model("a", GONE, 0.0)


def test_a_model_added_twice_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="this is a bug"):
        a_scheduler(a=1).add_model("a", 1)


def test_a_model_that_weighs_nothing_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="model a has weight 0, expected more than 0; this is a bug"):
        a_scheduler().add_model("a", 1, Terms(weight=0))


def test_its_repr_tells_an_operator_how_busy_it_is() -> None:
    scheduler = a_scheduler(capacity=4, a=1)
    scheduler.submit(make_job("a"), 0.0)
    scheduler.submit(make_job("a"), 0.0)
    assert repr(scheduler) == "<Scheduler 1/1 slots busy, 1/4 queued>"


def test_jobs_of_a_model_without_slots_wait_until_it_has_some_again() -> None:
    scheduler = a_scheduler(a=1, b=1)
    assert scheduler.take_slots("a")
    assert scheduler.occupancy_of("a") == Occupancy(0, 0, 0)
    first, second, other = make_job("a"), make_job("a", deadline=5.0), make_job("b")
    assert started(scheduler.submit(first, 0.0)) == started(scheduler.submit(second, 0.0)) == []
    assert started(scheduler.submit(other, 0.0)) == [other]
    scheduler.report("b", 0, DONE, 1.0)
    effects = scheduler.give_slots("a", 3, 6.0)
    assert (started(effects), ended(effects)) == ([first], [second])
    assert scheduler.occupancy == Occupancy(1, 3, 0)


def test_a_model_with_jobs_keeps_its_slots() -> None:
    scheduler = a_scheduler(limit=1, a=1, b=1)
    scheduler.submit(make_job("a"), 0.0)
    scheduler.submit(make_job("b"), 0.0)
    assert not scheduler.take_slots("a")
    assert not scheduler.take_slots("b")
    scheduler.remove_model("a", None, 0.0)
    assert not scheduler.take_slots("a")


def test_a_model_that_keeps_a_caller_s_states_keeps_its_slots() -> None:
    scheduler = Scheduler(8)
    scheduler.add_model("a", 2, Terms(binding=BindingTerms()))
    binding = scheduler.bind("a", lambda _: None, 0.0)
    assert not scheduler.take_slots("a")
    scheduler.release(binding, 1.0)
    assert scheduler.take_slots("a")
    late = scheduler.bind("a", lambda _: None, 2.0)
    job = Job("a", Work((), ()), 2.0, binding=late)
    assert started(scheduler.submit(job, 2.0)) == []
    assert scheduler.give_slots("a", 2, 3.0) == [Start((job,), 2)]


def test_the_waiting_jobs_of_a_model_without_slots_can_be_ended() -> None:
    scheduler = a_scheduler(a=1)
    scheduler.take_slots("a")
    job = make_job("a")
    scheduler.submit(job, 0.0)
    assert scheduler.end_waiting("a", GONE, 1.0) == [End(job)]
    scheduler.submit(make_job("a"), 1.0)
    assert scheduler.remove_model("a", None, 1.0) == []
    assert len(ended(scheduler.end_waiting("a", GONE, 2.0))) == 1
    assert scheduler.occupancy == Occupancy(0, 0, 0)


def test_a_model_that_has_slots_is_given_no_others() -> None:
    with pytest.raises(AssertionError, match="model a was given slots and has some; this is a bug"):
        a_scheduler(a=1).give_slots("a", 1, 0.0)


def fits(job: Job, waiting: Sequence[Job], capacity: int, most_bytes: int) -> bool:
    """Whether a job fits beside those that wait."""
    if len(waiting) >= capacity:
        return False
    return not waiting or sum(other.work.carried_bytes for other in (*waiting, job)) <= most_bytes


class SchedulerMachine(RuleBasedStateMachine):
    """Any sequence of calls, compared with lists and plain searches."""

    CAPACITY = 4
    SLOTS = {"a": 1, "b": 2}  # noqa: RUF012 - hypothesis makes one class of it
    WEIGHTS = {"a": 4.0, "b": 0.5}  # noqa: RUF012
    PARTS = {"a": 3, "b": 1}  # noqa: RUF012
    MOST_BYTES = 9
    BYTES_OF_PARTS = {"a": 8, "b": 1}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.scheduler = Scheduler(self.CAPACITY, most_bytes=self.MOST_BYTES)
        for model, slots in self.SLOTS.items():
            self.scheduler.add_model(model, slots, Terms(self.WEIGHTS[model]))
        self.tags = dict.fromkeys(self.SLOTS, 0.0)
        self.took: dict[str, list[float]] = {model: [] for model in self.SLOTS}
        self.virtual_now = 0.0
        self.charges: dict[Job, tuple[float, float]] = {}
        self.waiting: list[Job] = []
        self.running: dict[tuple[str, int], Job] = {}
        self.submitted = 0
        self.refused = 0
        self.ended: list[Job] = []

    def expect_starts(self) -> list[Job]:
        """Start by plain search what the rules say comes next."""
        starts: list[Job] = []
        while len(self.running) + len(starts) < max(self.SLOTS.values()):
            busy = [model for model, _ in self.running] + [str(job.model) for job in starts]
            startable = [job for job in self.waiting if busy.count(str(job.model)) < self.SLOTS[str(job.model)]]
            if not startable:
                break
            job = min(startable, key=lambda job: (-job.priority, self.turn(job.model), self.waiting.index(job)))
            self.waiting.remove(job)
            self.charge(job)
            starts.append(job)
        return starts

    def late(self) -> list[Job]:
        open_jobs = [job for job in (*self.waiting, *self.running.values()) if not job.state.is_terminal]
        return [job for job in open_jobs if job.deadline is not None and job.deadline <= self.now]

    def turn(self, model: Hashable) -> float:
        return max(self.tags[str(model)], self.virtual_now - CREDIT_S)

    def charge(self, job: Job) -> None:
        model, estimate = str(job.model), 0.0
        for index, took in enumerate(self.took[model]):
            estimate = took if index == 0 else estimate + (took - estimate) / 8
        self.virtual_now = max(self.virtual_now, start := self.turn(model))
        self.tags[model] = start + estimate / self.WEIGHTS[model]
        self.charges[job] = (self.now, estimate)

    def settle(self, job: Job) -> None:
        model, (began, charged) = str(job.model), self.charges.pop(job)
        self.took[model].append(self.now - began)
        self.tags[model] += (self.now - began - charged) / self.WEIGHTS[model]

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                (job,) = effect.jobs
                key = (str(job.model), effect.slot)
                assert key not in self.running
                self.running[key] = job
            if isinstance(effect, End):
                assert effect.job not in self.ended
                self.ended.append(effect.job)

    @rule(
        model=st.sampled_from(sorted(SLOTS)),
        priority=st.integers(-1, 1),
        patience=st.none() | st.integers(0, 5),
        carried_bytes=st.sampled_from([0, 0, 1, 4, 12]),
    )
    def submit(self, model: str, priority: int, patience: int | None, carried_bytes: int) -> None:
        job = make_job(model, self.now, priority, None if patience is None else self.now + patience, carried_bytes)
        self.submitted += 1
        own = [other for other in self.waiting if other.model == model]
        has_room = fits(job, self.waiting, self.CAPACITY, self.MOST_BYTES)
        has_room |= fits(job, own, self.PARTS[model], self.BYTES_OF_PARTS[model])
        may_start = sum(key[0] == model for key in self.running) < self.SLOTS[model] and len(self.running) < 2
        try:
            effects = self.scheduler.submit(job, self.now)
        except ServingError:
            assert not has_room
            self.refused += 1
            return
        assert has_room or may_start
        if all(other.model != model for other in self.waiting):
            self.tags[model] = max(self.tags[model], self.virtual_now)
        self.waiting.append(job)
        expected = self.expect_starts()
        assert started(effects) == expected
        self.apply(effects)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), fails=st.booleans())
    def report(self, data: st.DataObject, fails: bool) -> None:
        model, slot = data.draw(st.sampled_from(sorted(self.running)))
        job = self.running.pop((model, slot))
        was_over = job.state.is_terminal
        self.settle(job)
        outcome = ServingError(Code.INFERENCE_FAILED, "no") if fails else ()
        late = self.late()
        self.waiting = [waiting for waiting in self.waiting if waiting not in late]
        expected = self.expect_starts()
        effects = self.scheduler.report(model, slot, (outcome,), self.now)
        assert started(effects) == expected
        assert Counter(ended(effects)) == Counter([*late, *([] if was_over else [job])])
        self.apply(effects)

    @precondition(lambda self: self.waiting or self.running)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from([*self.waiting, *self.running.values()]))
        was_over = job.state.is_terminal
        effects = self.scheduler.cancel(job, CANCELLED, self.now)
        if job in self.waiting:
            self.waiting.remove(job)
        assert ended(effects) == ([] if was_over else [job])
        assert started(effects) == []
        self.apply(effects)

    @rule(step=st.integers(0, 3))
    def pass_time(self, step: int) -> None:
        self.now += step
        late = self.late()
        effects = self.scheduler.wake(self.now)
        assert set(map(id, ended(effects))) == set(map(id, late))
        self.waiting = [job for job in self.waiting if job not in late]
        self.apply(effects)

    @invariant()
    def counts_agree(self) -> None:
        assert self.scheduler.occupancy == Occupancy(len(self.running), 2, len(self.waiting))
        for model, slots in self.SLOTS.items():
            running = sum(key[0] == model for key in self.running)
            waiting = sum(job.model == model for job in self.waiting)
            assert self.scheduler.occupancy_of(model) == Occupancy(running, slots, waiting)

    @invariant()
    def nothing_is_lost(self) -> None:
        live = len(self.waiting) + sum(not job.state.is_terminal for job in self.running.values())
        assert self.submitted == self.refused + len(self.ended) + live

    @invariant()
    def nothing_waits_for_an_idle_slot(self) -> None:
        if len(self.running) < max(self.SLOTS.values()):
            for job in self.waiting:
                model = str(job.model)
                assert sum(key[0] == model for key in self.running) == self.SLOTS[model]


TestSchedulerMachine = SchedulerMachine.TestCase
