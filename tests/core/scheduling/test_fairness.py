"""Fair shares: under a flood each model has its part of the device's time, whatever its runs take."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_server.core.scheduling.effects import Effect, Start
from inferwire_server.core.scheduling.fairness import CREDIT_S, FairShares, Share
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.scheduling.scheduler import Scheduler

SLACK = 1e-9
DONE = ((),)


@dataclass(frozen=True, slots=True)
class Flood:
    """A model whose queue is never empty: its weight, and how long its runs take, over and over."""

    weight: float
    durations: tuple[float, ...]


class Simulation:
    """A device whose models are all flooded. Runs end when their time is up."""

    def __init__(self, floods: list[Flood], limit: int) -> None:
        self.floods = floods
        self.scheduler = Scheduler(len(floods) * (limit + 2), limit)
        self.now = 0.0
        self.served = [0.0] * len(floods)
        self.runs = [0] * len(floods)
        self.running: list[tuple[float, int, int, float]] = []
        for model, flood in enumerate(floods):
            self.scheduler.add_model(model, limit, Terms(flood.weight))
        # Nothing is fair before all of them ask: hold the device until they do.
        self.scheduler.add_model("hold", limit)
        held = [self.scheduler.submit(Job("hold", Work((), ()), 0.0), 0.0) for _ in range(limit)]
        for model in range(len(floods)):
            for _ in range(limit + 1):
                self.submit(model)
        for (start,) in held:
            assert isinstance(start, Start)
            self.apply(self.scheduler.report("hold", start.slot, DONE, 0.0))

    def submit(self, model: int) -> None:
        self.apply(self.scheduler.submit(Job(model, Work((), ()), self.now), self.now))

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                model = effect.jobs[0].model
                assert isinstance(model, int)
                durations = self.floods[model].durations
                duration = durations[self.runs[model] % len(durations)]
                self.runs[model] += 1
                self.running.append((self.now + duration, model, effect.slot, duration))
                self.submit(model)

    def step(self) -> None:
        end = min(self.running)
        self.running.remove(end)
        self.now, model, slot, duration = end
        self.served[model] += duration
        self.apply(self.scheduler.report(model, slot, DONE, self.now))


floods = st.builds(
    Flood,
    st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]),
    st.lists(st.sampled_from([0.001, 0.002, 0.005, 0.01]), min_size=1, max_size=4).map(tuple),
)


@given(st.lists(floods, min_size=2, max_size=4), st.integers(1, 3), st.integers(1, 150))
def test_flooded_models_share_the_device_by_their_weights(floods: list[Flood], limit: int, steps: int) -> None:
    simulation = Simulation(floods, limit)
    for _ in range(steps):
        simulation.step()
    served = [time / flood.weight for time, flood in zip(simulation.served, floods, strict=True)]
    longest = [max(flood.durations) / flood.weight for flood in floods]
    # A run is never interrupted, and as many as may run at once can be ahead of their share.
    bound = 2 * limit * sum(sorted(longest)[-2:])
    assert max(served) - min(served) <= bound + SLACK


@pytest.mark.parametrize("flood_size", [1, 50])
def test_a_flood_holds_up_another_models_job_by_one_run_at_most(flood_size: int) -> None:
    scheduler = Scheduler(100, places=1)
    scheduler.add_model("flooded", 1)
    scheduler.add_model("quiet", 1)
    for _ in range(flood_size + 1):
        scheduler.submit(Job("flooded", Work((), ()), 0.0), 0.0)
    quiet = Job("quiet", Work((), ()), 0.0)
    assert scheduler.submit(quiet, 0.5) == []
    (_, start) = scheduler.report("flooded", 0, DONE, 1.0)
    assert start == Start((quiet,), 0)


def test_time_in_which_a_model_asked_for_nothing_gives_it_no_claim() -> None:
    shares, busy, late = FairShares(), Share(), Share()
    for _ in range(100):
        shares.end(busy, shares.begin(busy), 1.0)
    shares.wake(late)
    assert shares.turn(late) == shares.turn(busy) - 1.0


def test_what_a_model_could_not_use_is_made_up_for_within_bounds() -> None:
    shares, busy, urgent_only = FairShares(), Share(), Share()
    for _ in range(100):
        shares.end(busy, shares.begin(busy), 1.0)
    assert shares.turn(urgent_only) == 99.0 - CREDIT_S


def test_a_run_is_charged_what_runs_took_before_and_then_what_it_took() -> None:
    shares, share = FairShares(), Share(weight=2.0)
    assert shares.begin(share) == 0.0
    shares.end(share, 0.0, 8.0)
    assert (share.tag, share.estimate_s) == (4.0, 8.0)
    assert shares.begin(share) == 8.0
    assert share.tag == 8.0
    shares.end(share, 8.0, 16.0)
    assert (share.tag, share.estimate_s) == (12.0, 9.0)
