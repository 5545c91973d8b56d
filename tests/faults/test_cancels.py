"""A job is cancelled at each moment of its life: it ends once, cancelled if it had not ended, and its slot is free."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Event

import pytest
from tests.faults.conftest import SLOTS, WORK, Server
from tests.waiting import LIMIT_S

from inferwire_server.core.scheduling.job import Job, JobState, Transforms
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, FakeSlot, echo, echo_spec


class Stepping(FakeModel):
    """A model whose slots wait before an inference begins and after it has been computed."""

    def __init__(self) -> None:
        super().__init__(echo_spec("echo"), optimal_slots=SLOTS)
        self.is_at_start, self.may_start = Event(), Event()
        self.is_at_end, self.may_end = Event(), Event()
        for event in (self.may_start, self.may_end):
            event.set()

    def create_slot(self, *, keeps_states: bool = False) -> FakeSlot:
        return SteppingSlot(self, keeps_states=keeps_states)


class SteppingSlot(FakeSlot):
    def __init__(self, model: Stepping, *, keeps_states: bool) -> None:
        super().__init__(model, keeps_states=keeps_states)
        self._stepping = model

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        model = self._stepping
        model.is_at_start.set()
        assert model.may_start.wait(LIMIT_S)
        computed = super().run(inputs, outputs, transforms)
        model.is_at_end.set()
        assert model.may_end.wait(LIMIT_S)
        return computed


@pytest.fixture
def model() -> Stepping:
    return Stepping()


class Ends:
    """How often a job was told to have ended."""

    def __init__(self, server: Server) -> None:
        self.states: list[JobState] = []
        self.service = server.composition.services.inference
        self.job = self.service.submit(WORK, self._ended)

    def _ended(self, job: Job) -> None:
        self.states.append(job.state)

    def cancel(self) -> None:
        self.service.cancel(self.job, "cancelled by the test")


async def test_as_it_waits(server: Server, model: Stepping) -> None:
    model.gate.close()
    others = [Ends(server) for _ in range(SLOTS)]
    waiting = Ends(server)
    waiting.cancel()
    assert waiting.states == [JobState.CANCELLED]
    model.gate.open()
    await server.is_whole(cancelled=1, finished=SLOTS)
    assert [end.states for end in (*others, waiting)] == [[JobState.FINISHED]] * SLOTS + [[JobState.CANCELLED]]


async def test_before_its_thread_has_it(server: Server) -> None:
    ends = Ends(server)
    ends.cancel()
    await server.is_whole(cancelled=1)
    assert ends.states == [JobState.CANCELLED]


async def test_between_its_thread_and_the_inference_whose_stop_comes_too_early(server: Server, model: Stepping) -> None:
    model.may_start.clear()
    ends = Ends(server)
    assert await asyncio.to_thread(model.is_at_start.wait, LIMIT_S)
    ends.cancel()
    assert server.device.occupancy.running == 1
    model.may_start.set()
    await server.is_whole(cancelled=1)
    assert ends.states == [JobState.CANCELLED]


async def test_as_it_runs(server: Server, model: Stepping) -> None:
    model.gate.close()
    ends = Ends(server)
    await asyncio.to_thread(model.gate.wait_held, 1)
    ends.cancel()
    await server.is_whole(cancelled=1)
    assert ends.states == [JobState.CANCELLED]


async def test_as_it_runs_where_the_device_cannot_stop(server: Server, model: Stepping) -> None:
    model.can_cancel = False
    model.gate.close()
    ends = Ends(server)
    await asyncio.to_thread(model.gate.wait_held, 1)
    ends.cancel()
    assert (ends.states, server.device.occupancy.running) == ([JobState.CANCELLED], 1)
    model.gate.open()
    await server.is_whole(cancelled=1)


async def test_when_it_has_computed_and_its_slot_has_not_told_yet(server: Server, model: Stepping) -> None:
    model.may_end.clear()
    ends = Ends(server)
    assert await asyncio.to_thread(model.is_at_end.wait, LIMIT_S)
    ends.cancel()
    model.may_end.set()
    await server.is_whole(cancelled=1)
    assert ends.states == [JobState.CANCELLED]


async def test_in_the_step_of_the_loop_before_its_report(server: Server, model: Stepping) -> None:
    loop = asyncio.get_running_loop()
    ends: list[Ends] = []

    def cancel_from_its_thread(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        loop.call_soon_threadsafe(ends[0].cancel)
        return tuple(inputs)

    model.compute = cancel_from_its_thread
    ends.append(Ends(server))
    await server.comes_to(0, 0)
    model.compute = echo
    await server.is_whole(cancelled=1)
    assert ends[0].states == [JobState.CANCELLED]


async def test_after_its_end(server: Server) -> None:
    ends = Ends(server)
    await server.comes_to(0, 0)
    ends.cancel()
    await server.is_whole(finished=1)
    assert ends.states == [JobState.FINISHED]


async def test_by_another_job_s_end(server: Server, model: Stepping) -> None:
    """The end of one cancels all the others, those that are started in the same step among them."""
    model.gate.close()
    jobs: list[Ends] = []
    service = server.composition.services.inference

    def cancel_all(_: Job) -> None:
        for ends in jobs:
            ends.cancel()

    service.submit(WORK, cancel_all)
    jobs.extend(Ends(server) for _ in range(4))
    await asyncio.to_thread(model.gate.wait_held, SLOTS)
    model.gate.open()
    await server.comes_to(0, 0)
    cancelled = sum(ends.states == [JobState.CANCELLED] for ends in jobs)
    finished = sum(ends.states == [JobState.FINISHED] for ends in jobs)
    assert cancelled + finished == 4
    await server.is_whole(**({"cancelled": cancelled} if cancelled else {}), finished=finished + 1)
