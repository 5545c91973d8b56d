"""Everything that may happen to a device's queue, in any order: models of all kinds, some brief, some that come and go.

What each kind does in detail is compared with naive models elsewhere. Here it is that nothing is lost between them:
no place, no slot, no job, and no moment at which something was to happen.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.callers import at_host
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.bindings import Binding, BindingTerms
from inferwire_server.core.scheduling.effects import Drained, Effect, End, Start, Unbound
from inferwire_server.core.scheduling.job import Job, JobState, Outcome, Work
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

CANCELLED = ServingError(Code.CANCELLED, "cancelled by the test")
GONE = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")

CAPACITY, LIMIT, MOST_BOUND = 4, 2, 2

TERMS = {
    "plain": Terms(),
    "heavy": Terms(weight=20.0),
    "batched": Terms(batching=Batching(4, max_delay_s=2.0)),
    "preferring": Terms(batching=Batching(8, max_delay_s=3.0, preferred=(2, 4))),
    "bound": Terms(binding=BindingTerms(MOST_BOUND, idle_s=4.0, may_wait=True)),
}
SLOTS = dict(zip(TERMS, (1, 2, 2, 2, 2), strict=True))
MODELS = st.sampled_from(sorted(TERMS))
CALLERS = ("a", "b")


@dataclass
class SwitchedOutlet:
    """An outlet that is clogged as the test says."""

    is_clogged: bool = False


class EventMachine(RuleBasedStateMachine):
    """Any calls of the engine, and what holds after each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.scheduler = Scheduler(CAPACITY, LIMIT)
        self.present: set[str] = set()
        self.leaving: set[str] = set()
        self.without_slots: set[str] = set()
        self.brief: set[str] = set()
        self.jobs: list[Job] = []
        self.ended: list[Job] = []
        self.running: dict[tuple[str, int], tuple[Job, ...]] = {}
        self.in_places: set[tuple[str, int]] = set()
        self.bindings: list[Binding] = []
        self.outlets = {caller: SwitchedOutlet() for caller in CALLERS}

    @initialize(brief=st.sets(MODELS))
    def begin(self, brief: set[str]) -> None:
        for model in TERMS:
            self.add_model(model)
        for model in brief:
            self.set_brief(model, is_brief=True)

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Start(jobs, slot, executions):
                    model = str(jobs[0].model)
                    assert executions == sum(job.work.executions for job in jobs)
                    assert all(job.model == model and job.state is JobState.RUNNING for job in jobs)
                    assert not any(job.is_held_back for job in jobs)
                    assert (model, slot) not in self.running
                    self.running[model, slot] = jobs
                    if model not in self.brief:
                        assert len(self.in_places) < LIMIT
                        self.in_places.add((model, slot))
                case End(job):
                    assert job not in self.ended
                    self.ended.append(job)
                case Unbound(binding):
                    self.bindings.remove(binding)
                case Drained(model):
                    assert model in self.leaving
                    self.leaving.discard(str(model))
                    self.present.discard(str(model))
                    self.brief.discard(str(model))
                    self.without_slots.discard(str(model))
                case _:
                    pass

    def waiting(self, model: str | None = None) -> list[Job]:
        return [job for job in self.jobs if job.state is JobState.QUEUED and model in (None, job.model)]

    def busy(self, model: str) -> int:
        return sum(key[0] == model for key in self.running)

    def part(self, model: str) -> int:
        """How many jobs of a model are admitted to a full queue."""
        weights = sum(TERMS[other].weight for other in self.present)
        return max(1, int(CAPACITY * TERMS[model].weight / weights))

    def take_turns(self) -> None:
        """Carry out what waits for the loop's next turn."""
        self.apply(self.scheduler.wake(self.now))

    @precondition(lambda self: len(self.present) < len(TERMS))
    @rule(data=st.data())
    def add_a_model(self, data: st.DataObject) -> None:
        self.add_model(data.draw(st.sampled_from(sorted(TERMS.keys() - self.present))))

    def add_model(self, model: str) -> None:
        self.present.add(model)
        self.scheduler.add_model(model, SLOTS[model], TERMS[model])
        self.take_turns()

    @rule(model=MODELS, ends=st.booleans())
    def remove_model(self, model: str, ends: bool) -> None:
        if model in self.present - self.leaving and (ends or model not in self.without_slots):
            self.leaving.add(model)
            self.apply(self.scheduler.remove_model(model, GONE if ends else None, self.now))

    @rule(model=MODELS)
    def take_slots(self, model: str) -> None:
        if model in self.present - self.without_slots and self.scheduler.take_slots(model):
            assert not self.busy(model)
            self.without_slots.add(model)

    @precondition(lambda self: self.without_slots)
    @rule(data=st.data())
    def give_slots_back(self, data: st.DataObject) -> None:
        self.give_slots(data.draw(st.sampled_from(sorted(self.without_slots))))

    def give_slots(self, model: str) -> None:
        self.without_slots.discard(model)
        self.apply(self.scheduler.give_slots(model, SLOTS[model], self.now))

    @rule(
        model=MODELS,
        data=st.data(),
        rows=st.integers(1, 4),
        priority=st.sampled_from([0, 0, 1]),
        patience=st.none() | st.integers(0, 5),
        waits=st.booleans(),
        count=st.integers(1, 3),
        caller=st.none() | st.sampled_from(CALLERS),
    )
    def submit(
        self,
        model: str,
        data: st.DataObject,
        rows: int,
        priority: int,
        patience: int | None,
        waits: bool,
        count: int,
        caller: str | None,
    ) -> None:
        work = Work((Tensor(BY_NAME["u8"], (rows, 1), b"0" * rows),), (0,))
        deadline = None if patience is None else self.now + patience
        for _ in range(count):
            bound = [each for each in self.bindings if each.model == model and not each.is_ending]
            binding = data.draw(st.sampled_from([None, *bound])) if bound else None
            job = Job(model, work, self.now, priority, deadline, binding=binding)
            if caller is not None:
                job.caller, job.outlet = at_host(caller), self.outlets[caller]
            self.submit_one(job, waits)
        self.take_turns()

    def submit_one(self, job: Job, waits: bool) -> None:
        model = str(job.model)
        waiting = len(self.waiting())
        try:
            effects = self.scheduler.submit(job, self.now, waits=waits)
        except ServingError:
            assert model not in self.present - self.leaving or waiting >= CAPACITY
            return
        self.jobs.append(job)
        self.apply(effects)
        if not waits:
            is_welcome = len(self.waiting()) <= CAPACITY or len(self.waiting(model)) <= self.part(model)
            assert is_welcome or job.state is not JobState.QUEUED

    @rule()
    def bind(self) -> None:
        if "bound" in self.present - self.leaving:
            self.bindings.append(self.scheduler.bind("bound", lambda _: None, self.now))

    @precondition(lambda self: self.bindings)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.apply(self.scheduler.release(data.draw(st.sampled_from(self.bindings)), self.now))

    @precondition(lambda self: self.bindings and "bound" in self.present - self.leaving)
    @rule(data=st.data())
    def begin_anew(self, data: st.DataObject) -> None:
        """As a sequence does that starts while it is under way, or ends."""
        before = data.draw(st.sampled_from(self.bindings))
        self.bindings.append(self.scheduler.bind("bound", lambda _: None, self.now, before))
        self.apply(self.scheduler.release(before, self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), fails=st.booleans())
    def report(self, data: st.DataObject, fails: bool) -> None:
        self.end_run(data.draw(st.sampled_from(sorted(self.running))), fails)

    def end_run(self, key: tuple[str, int], fails: bool = False) -> None:
        jobs = self.running.pop(key)
        self.in_places.discard(key)
        outcome: Outcome = ServingError(Code.INFERENCE_FAILED, "no") if fails else ()
        self.apply(self.scheduler.report(*key, [outcome] * len(jobs), self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), is_brief=st.booleans())
    def find_out_how_brief(self, data: st.DataObject, is_brief: bool) -> None:
        """As the engine does when a run begins."""
        model, slot = data.draw(st.sampled_from(sorted(self.running)))
        self.set_brief(model, is_brief)
        if not is_brief:
            self.scheduler.take_place(model, slot)
            self.in_places.add((model, slot))
        self.take_turns()

    def set_brief(self, model: str, is_brief: bool) -> None:
        self.scheduler.set_brief(model, is_brief)
        (self.brief.add if is_brief else self.brief.discard)(model)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.apply(self.scheduler.cancel(data.draw(st.sampled_from(self.jobs)), CANCELLED, self.now))

    @rule(caller=st.sampled_from(CALLERS), is_clogged=st.booleans())
    def clog(self, caller: str, is_clogged: bool) -> None:
        """Have a caller take its answers, or take them no more; when the timer next goes off, that is seen."""
        self.outlets[caller].is_clogged = is_clogged
        self.take_turns()

    @rule(step=st.integers(1, 6))
    def pass_time(self, step: float) -> None:
        """Go on, but no further than the device's timer would let time pass unseen."""
        wake_at = self.scheduler.next_wake
        just_before = self.now + step if wake_at is None else min(self.now + step, wake_at - 0.001)
        if just_before > self.now:
            assert self.scheduler.wake(just_before) == []
        self.now += step
        self.take_turns()

    @invariant()
    def it_does_not_ask_to_be_woken_for_nothing(self) -> None:
        assert self.scheduler.wake(self.now) == []
        wake_at = self.scheduler.next_wake
        assert wake_at is None or wake_at > self.now

    @invariant()
    def no_more_run_than_may(self) -> None:
        for model in TERMS:
            assert self.busy(model) <= (0 if model in self.without_slots else SLOTS[model])

    @invariant()
    def sums_are_right(self) -> None:
        assert self.scheduler.occupancy == Occupancy(len(self.running), LIMIT, len(self.waiting()))
        for model in self.present:
            slots = 0 if model in self.without_slots else SLOTS[model]
            bound = sum(binding.model == model for binding in self.bindings)
            expected = Occupancy(self.busy(model), slots, len(self.waiting(model)), bound)
            assert self.scheduler.occupancy_of(model) == expected
        assert all(job.state.is_terminal == (job in self.ended) for job in self.jobs)

    @invariant()
    def what_may_start_has_started(self) -> None:
        for model in sorted(self.present - self.without_slots):
            mine = [job for job in self.waiting(model) if self.may_start(job)]
            if not mine or self.busy(model) == SLOTS[model]:
                continue
            is_held = TERMS[model].batching is not None and self.busy(model) and self.scheduler.next_wake is not None
            is_full = len(self.in_places) >= LIMIT
            others = [
                job
                for job in self.waiting()
                if job.model != model and job.model not in self.without_slots and not job.is_held_back
            ]
            assert is_held or (is_full and (model not in self.brief or others)), model

    def may_start(self, job: Job) -> bool:
        """Whether a job waits for no more than its turn and a slot that callers share."""
        if job.is_held_back:
            return False
        if (binding := job.binding) is None:
            return True
        if binding.slot is None or (binding.model, binding.slot) in self.running:
            return False
        # The jobs of a binding run in their order, whoever submitted them.
        mine = [other for other in self.waiting(str(job.model)) if other.binding is binding]
        return not mine[0].is_held_back

    def teardown(self) -> None:
        """Let all that runs end, again and again: everybody gets an answer, and everything is given back."""
        for model in sorted(self.without_slots):
            self.give_slots(model)
        for caller in CALLERS:
            self.clog(caller, is_clogged=False)
        while self.running or self.waiting():
            if self.running:
                self.end_run(min(self.running))
            else:
                wake_at = self.scheduler.next_wake
                assert wake_at is not None
                self.pass_time(wake_at - self.now)
            self.sums_are_right()
        assert len(self.ended) == len(self.jobs)
        for model in sorted(self.present - self.leaving):
            self.remove_model(model, ends=False)
        assert not self.present
        assert not self.bindings
        assert self.scheduler.next_wake is None


TestEventMachine = EventMachine.TestCase
