"""Slots that belong to one caller each: their rules one by one, and the scheduler with them against a naive model."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.bindings import Binding, Bindings, BindingTerms
from inferwire_server.core.scheduling.effects import Drained, Effect, End, Start, Unbound
from inferwire_server.core.scheduling.job import Job, JobState, Work
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.errors import ServingError

CANCELLED = ServingError(Code.CANCELLED, "cancelled by the test")
GONE = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")
DONE = ((),)


def a_scheduler(slots: int = 1, **terms: object) -> Scheduler:
    scheduler = Scheduler(capacity=8)
    binding = BindingTerms(**({"most": 2, "idle_s": 10.0} | terms))  # pyright: ignore[reportArgumentType]
    scheduler.add_model("m", slots, Terms(binding=binding))
    return scheduler


def bind(scheduler: Scheduler, now: float = 0.0, instead_of: Binding | None = None) -> Binding:
    return scheduler.bind("m", lambda _: None, now, instead_of)


def a_job(binding: Binding | None, priority: int = 0, deadline: float | None = None) -> Job:
    return Job("m", Work((), ()), 0.0, priority, deadline, binding=binding)


def starts(effects: list[Effect]) -> list[tuple[Job, int]]:
    return [(effect.jobs[0], effect.slot) for effect in effects if isinstance(effect, Start)]


def unbound(effects: list[Effect]) -> list[Binding]:
    return [effect.binding for effect in effects if isinstance(effect, Unbound)]


def test_every_binding_has_a_slot_of_its_own_behind_the_shared_ones() -> None:
    scheduler = a_scheduler(slots=3)
    first, second = bind(scheduler), bind(scheduler)
    shared, of_first, of_second = a_job(None), a_job(first), a_job(second)
    assert starts([*scheduler.submit(shared, 0.0), *scheduler.submit(of_first, 0.0)]) == [(shared, 0), (of_first, 3)]
    assert starts(scheduler.submit(of_second, 0.0)) == [(of_second, 4)]
    assert scheduler.occupancy_of("m").bound == 2


def test_jobs_of_a_binding_run_one_after_the_other_in_the_order_they_came_however_urgent() -> None:
    scheduler = a_scheduler(slots=2)
    binding = bind(scheduler)
    first, second, urgent = a_job(binding), a_job(binding), a_job(binding, priority=5)
    assert starts(scheduler.submit(first, 0.0)) == [(first, 2)]
    assert scheduler.submit(second, 0.0) == []
    assert scheduler.submit(urgent, 0.0) == []
    assert starts(scheduler.report("m", 2, DONE, 1.0)) == [(second, 2)]
    assert starts(scheduler.report("m", 2, DONE, 2.0)) == [(urgent, 2)]


def test_the_urgency_of_a_binding_among_others_is_that_of_its_next_job() -> None:
    scheduler = a_scheduler()
    slow, keen = bind(scheduler), bind(scheduler)
    running, normal, urgent = a_job(None), a_job(slow), a_job(keen, priority=1)
    for job in (running, normal, urgent):
        scheduler.submit(job, 0.0)
    assert starts(scheduler.report("m", 0, DONE, 1.0)) == [(urgent, 2)]


def test_bound_jobs_run_no_more_at_once_than_there_are_shared_slots() -> None:
    scheduler = a_scheduler(slots=1)
    first, second = a_job(bind(scheduler)), a_job(bind(scheduler))
    assert starts(scheduler.submit(first, 0.0)) == [(first, 1)]
    assert scheduler.submit(second, 0.0) == []
    assert scheduler.submit(shared := a_job(None), 0.0) == []
    assert starts(scheduler.report("m", 1, DONE, 1.0)) == [(second, 2)]
    assert starts(scheduler.report("m", 2, DONE, 2.0)) == [(shared, 0)]


def test_one_caller_too_many_is_refused_and_told_when_to_come_back() -> None:
    scheduler = a_scheduler()
    first, _ = bind(scheduler), bind(scheduler)
    with pytest.raises(ServingError, match="model 'm' keeps the states of 2 callers, at most 2 may be") as caught:
        bind(scheduler)
    assert (caught.value.code, caught.value.retry_after_s) == (Code.QUEUE_FULL, 1.0)
    assert unbound(scheduler.release(first, 1.0)) == [first]
    assert bind(scheduler).slot == 1


@pytest.mark.parametrize("may_wait", [False, True])
def test_a_caller_that_begins_anew_has_its_slot_again_before_those_that_wait(*, may_wait: bool) -> None:
    scheduler = a_scheduler(most=1, may_wait=may_wait)
    first = bind(scheduler)
    waiting = [bind(scheduler)] if may_wait else []
    anew = bind(scheduler, instead_of=first)
    assert scheduler.release(first, 0.0) == [Unbound(first)]
    assert anew.slot == 1
    assert [each.slot for each in waiting] == [None] * len(waiting)


def test_a_caller_that_begins_anew_while_it_waits_keeps_its_place() -> None:
    scheduler = a_scheduler(most=1, may_wait=True)
    first, second, third = bind(scheduler), bind(scheduler), bind(scheduler)
    anew = bind(scheduler, instead_of=second)
    scheduler.release(second, 0.0)
    scheduler.release(first, 0.0)
    assert (anew.slot, third.slot) == (1, None)


def test_a_caller_whose_slot_still_runs_begins_anew_in_another_where_there_is_one() -> None:
    scheduler = a_scheduler(most=2)
    first = bind(scheduler)
    scheduler.submit(a_job(first), 0.0)
    assert bind(scheduler, instead_of=first).slot == 2


def test_a_caller_waits_for_a_binding_of_its_own_that_is_ending_where_others_are_refused() -> None:
    scheduler = a_scheduler(most=1)
    first = bind(scheduler)
    running, last = a_job(first), a_job(first)
    scheduler.submit(running, 0.0)
    scheduler.submit(last, 0.0)
    assert scheduler.release(first, 0.0) == []
    second = bind(scheduler, instead_of=first)
    assert scheduler.submit(a_job(second), 0.0) == scheduler.release(second, 0.0) == []
    third = bind(scheduler, instead_of=second)
    with pytest.raises(ServingError, match="keeps the states of 1 callers, at most 1 may be"):
        bind(scheduler)
    scheduler.report("m", 1, DONE, 1.0)
    assert second.slot is None
    assert [started.binding for started, _ in starts(scheduler.report("m", 1, DONE, 2.0))] == [second]
    assert scheduler.report("m", 1, DONE, 3.0)[-1] == Unbound(second)
    assert third.slot == 1


@pytest.mark.parametrize("state", ["ended", "of another model"])
def test_a_binding_that_makes_no_room_is_not_waited_for(state: str) -> None:
    scheduler = a_scheduler(most=1)
    scheduler.add_model("other", 1, Terms(binding=BindingTerms()))
    other = scheduler.bind("other", lambda _: None, 0.0)
    first = bind(scheduler)
    if state == "ended":
        scheduler.release(first, 0.0)
        bind(scheduler)
    if state == "of another model":
        scheduler.submit(Job("other", Work((), ()), 0.0, binding=other), 0.0)
        scheduler.release(other, 0.0)
    with pytest.raises(ServingError, match="keeps the states of 1 callers, at most 1 may be"):
        bind(scheduler, instead_of=other if state == "of another model" else first)


def test_where_callers_may_wait_the_first_of_them_inherits_the_slot_and_its_jobs_start() -> None:
    scheduler = a_scheduler(most=1, may_wait=True)
    first, second, third = bind(scheduler), bind(scheduler), bind(scheduler)
    assert [binding.slot for binding in (first, second, third)] == [1, None, None]
    waiting = a_job(second)
    assert scheduler.submit(waiting, 0.0) == []
    assert repr(second) == "<Binding of m: waits, 1 jobs>"
    effects = scheduler.release(first, 1.0)
    assert effects == [Unbound(first), Start((waiting,), 1)]
    assert scheduler.occupancy_of("m").bound == 2


def test_a_waiting_caller_that_lets_go_is_passed_over() -> None:
    scheduler = a_scheduler(most=1, may_wait=True)
    first, second, third = bind(scheduler), bind(scheduler), bind(scheduler)
    assert scheduler.release(second, 0.0) == [Unbound(second)]
    scheduler.release(first, 0.0)
    assert (second.slot, third.slot) == (None, 1)


def test_a_released_binding_ends_with_the_last_of_its_jobs() -> None:
    scheduler = a_scheduler()
    binding = bind(scheduler)
    running, waiting = a_job(binding), a_job(binding)
    scheduler.submit(running, 0.0)
    scheduler.submit(waiting, 0.0)
    assert scheduler.release(binding, 1.0) == []
    assert unbound(scheduler.report("m", 1, DONE, 2.0)) == []
    assert scheduler.report("m", 1, DONE, 3.0) == [End(waiting), Unbound(binding)]
    assert scheduler.release(binding, 4.0) == []


def test_a_binding_whose_slot_still_runs_a_cancelled_job_keeps_the_slot() -> None:
    scheduler = a_scheduler(most=1, may_wait=True)
    binding, heir = bind(scheduler), bind(scheduler)
    job, waiting = a_job(binding), a_job(heir)
    scheduler.submit(job, 0.0)
    scheduler.submit(waiting, 0.0)
    scheduler.release(binding, 0.0)
    assert unbound(scheduler.cancel(job, CANCELLED, 1.0)) == []
    assert scheduler.report("m", 1, DONE, 2.0) == [Unbound(binding), Start((waiting,), 1)]


def test_cancelling_the_last_waiting_job_of_a_released_binding_lets_the_next_caller_in() -> None:
    scheduler = a_scheduler(most=1, may_wait=True)
    binding, heir = bind(scheduler), bind(scheduler)
    shared, job, waiting = a_job(None), a_job(binding), a_job(heir)
    for each in (shared, job, waiting):
        scheduler.submit(each, 0.0)
    scheduler.release(binding, 0.0)
    assert scheduler.cancel(job, CANCELLED, 1.0) == [End(job), Unbound(binding)]
    assert starts(scheduler.report("m", 0, DONE, 2.0)) == [(waiting, 1)]


def test_a_binding_that_had_no_job_for_too_long_ends() -> None:
    scheduler = a_scheduler()
    idle, busy = bind(scheduler, 0.0), bind(scheduler, 1.0)
    assert scheduler.next_wake == 10.0
    scheduler.submit(a_job(busy), 2.0)
    assert unbound(scheduler.wake(9.9)) == []
    assert unbound(scheduler.wake(10.0)) == [idle]
    assert idle.has_ended
    assert scheduler.next_wake is None
    scheduler.report("m", 2, DONE, 30.0)
    assert scheduler.next_wake == 40.0
    assert unbound(scheduler.wake(40.0)) == [busy]


@pytest.mark.parametrize("ending", ["cancelled", "expired"])
def test_a_binding_none_of_whose_jobs_ran_ends_with_the_last_of_them(ending: str) -> None:
    scheduler = a_scheduler(most=1, may_wait=True)
    holder, gone, heir = bind(scheduler), bind(scheduler), bind(scheduler)
    given_up, other, waiting = a_job(gone, deadline=1.0), a_job(gone, deadline=1.0), a_job(heir)
    for job in (a_job(holder), given_up, other, waiting):
        scheduler.submit(job, 0.0)
    if ending == "cancelled":
        effects = scheduler.cancel(given_up, CANCELLED, 1.0) + scheduler.cancel(other, CANCELLED, 1.0)
    else:
        effects = scheduler.wake(1.0)
    assert effects == [End(given_up), End(other), Unbound(gone)]
    scheduler.report("m", 1, DONE, 2.0)
    assert scheduler.release(holder, 3.0) == [Unbound(holder), Start((waiting,), 1)]
    assert scheduler.occupancy_of("m").bound == 1


def test_a_binding_with_a_slot_that_no_job_ran_in_leaves_it_to_the_next() -> None:
    scheduler = a_scheduler(most=1, may_wait=True)
    scheduler.submit(a_job(None), 0.0)
    first, second = bind(scheduler), bind(scheduler)
    given_up = a_job(first)
    scheduler.submit(given_up, 0.0)
    assert scheduler.cancel(given_up, CANCELLED, 1.0) == [End(given_up), Unbound(first)]
    assert second.slot == 1


def test_a_binding_whose_first_job_ran_outlives_those_that_did_not() -> None:
    scheduler = a_scheduler()
    binding = bind(scheduler)
    running, waiting = a_job(binding), a_job(binding)
    scheduler.submit(running, 0.0)
    scheduler.submit(waiting, 0.0)
    scheduler.report("m", 1, (ServingError(Code.INFERENCE_FAILED, "no"),), 1.0)
    assert unbound(scheduler.cancel(waiting, CANCELLED, 2.0)) == []
    assert unbound(scheduler.report("m", 1, DONE, 3.0)) == []
    scheduler.submit(late := a_job(binding), 4.0)
    assert late.state is JobState.RUNNING


def test_a_model_that_goes_ends_its_bindings() -> None:
    scheduler = a_scheduler()
    idle, busy = bind(scheduler), bind(scheduler)
    job = a_job(busy)
    scheduler.submit(job, 0.0)
    assert unbound(scheduler.remove_model("m", GONE, 1.0)) == [idle]
    with pytest.raises(ServingError, match="is unloading"):
        bind(scheduler)
    assert scheduler.report("m", 2, DONE, 2.0) == [End(job), Unbound(busy), Drained("m")]
    with pytest.raises(ServingError, match="is unloading"):
        bind(scheduler)
    assert scheduler.release(busy, 3.0) == []


@pytest.mark.parametrize("has_jobs", [False, True])
def test_a_job_on_a_binding_that_was_released_is_a_bug(has_jobs: bool) -> None:
    scheduler = a_scheduler()
    binding = bind(scheduler)
    if has_jobs:
        scheduler.submit(a_job(binding), 0.0)
    scheduler.release(binding, 0.0)
    with pytest.raises(AssertionError, match="takes no more jobs; this is a bug"):
        scheduler.submit(a_job(binding), 0.0)


def test_a_model_without_states_has_nothing_to_bind() -> None:
    scheduler = Scheduler(1)
    scheduler.add_model("m", 1)
    with pytest.raises(AssertionError, match="has no slots to bind; this is a bug"):
        bind(scheduler)


def test_they_tell_an_operator_what_is_bound() -> None:
    bindings = Bindings("m", BindingTerms(most=1, may_wait=True), 2)
    first, _ = bindings.bind(print, 0.0), bindings.bind(print, 0.0)
    assert repr(bindings) == "<Bindings of m: 1/1 bound, 1 wait>"
    assert repr(first) == "<Binding of m: slot 2, 0 jobs>"
    bindings.release(first)
    assert repr(first) == "<Binding of m: ended, 0 jobs>"


class BindingMachine(RuleBasedStateMachine):
    """Any calls of callers that come, work and go, beside others that share the model."""

    SLOTS, MOST, IDLE_S = 2, 2, 5.0

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.scheduler = a_scheduler(self.SLOTS, most=self.MOST, idle_s=self.IDLE_S, may_wait=True)
        self.live: list[Binding] = []
        self.told: list[Binding] = []
        self.submitted: dict[Binding | None, list[Job]] = {}
        self.begun: dict[Binding | None, list[Job]] = {}
        self.running: dict[int, Job] = {}
        self.holders: dict[int, Binding] = {}

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                (job,) = effect.jobs
                assert effect.slot not in self.running
                self.running[effect.slot] = job
                self.begun.setdefault(job.binding, []).append(job)
                if job.binding is None:
                    assert effect.slot < self.SLOTS
                else:
                    assert effect.slot >= self.SLOTS
                    assert self.holders.setdefault(effect.slot, job.binding) is job.binding
            elif isinstance(effect, Unbound):
                assert effect.binding not in self.told
                assert effect.binding.slot not in self.running
                self.told.append(effect.binding)
                self.live = [binding for binding in self.live if binding is not effect.binding]
                if effect.binding.slot is not None:
                    self.holders.pop(effect.binding.slot, None)

    @rule()
    def bind(self) -> None:
        self.live.append(bind(self.scheduler, self.now))

    @rule(data=st.data(), patience=st.none() | st.integers(0, 4), priority=st.integers(-1, 1))
    def submit(self, data: st.DataObject, patience: int | None, priority: int) -> None:
        open_bindings = [binding for binding in self.live if not binding.is_ending]
        binding = data.draw(st.sampled_from([None, *open_bindings]))
        job = a_job(binding, priority, None if patience is None else self.now + patience)
        try:
            effects = self.scheduler.submit(job, self.now)
        except ServingError:
            assert self.scheduler.occupancy.queued >= self.scheduler.capacity
            return
        self.submitted.setdefault(binding, []).append(job)
        self.apply(effects)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[slot]
        self.apply(self.scheduler.report("m", slot, DONE, self.now))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        binding = data.draw(st.sampled_from(self.live))
        self.apply(self.scheduler.release(binding, self.now))

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        jobs = [job for jobs in self.submitted.values() for job in jobs]
        self.apply(self.scheduler.cancel(data.draw(st.sampled_from(jobs)), CANCELLED, self.now))

    @rule(step=st.integers(0, 6))
    def pass_time(self, step: int) -> None:
        self.now += step
        self.apply(self.scheduler.wake(self.now))

    @invariant()
    def a_binding_runs_its_jobs_in_order(self) -> None:
        for binding, jobs in self.begun.items():
            if binding is not None:
                order = [self.submitted[binding].index(job) for job in jobs]
                assert order == sorted(order)
                assert sum(job.binding is binding for job in self.running.values()) <= 1

    @invariant()
    def a_binding_that_lives_has_run_or_may_run(self) -> None:
        for binding in self.live:
            jobs = self.submitted.get(binding, [])
            assert not jobs or binding in self.begun or any(not job.state.is_terminal for job in jobs)

    @invariant()
    def no_more_run_than_may(self) -> None:
        assert len(self.running) <= self.SLOTS
        assert len({id(holder) for holder in self.holders.values()}) == len(self.holders) <= self.MOST

    @invariant()
    def what_could_run_runs(self) -> None:
        if len(self.running) == self.SLOTS:
            return
        for binding, jobs in self.submitted.items():
            if any(job.state is JobState.QUEUED for job in jobs):
                assert binding is not None
                assert binding.slot is None or binding.slot in self.running

    @invariant()
    def nobody_waits_for_a_slot_that_is_free(self) -> None:
        held = [binding for binding in self.live if binding.slot is not None]
        assert len(held) == min(len(self.live), self.MOST)
        assert self.scheduler.occupancy_of("m").bound == len(self.live)


TestBindingMachine = BindingMachine.TestCase
