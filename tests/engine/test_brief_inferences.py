"""Inferences that are shorter than handing them over run on the loop, and everything else is as on threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import get_ident

import pytest
from structlog.testing import capture_logs
from tests.engine.conftest import no_new_threads
from tests.waiting import until

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.job import Job, JobState, Timings, Work
from inferwire_server.core.scheduling.lane import DEFAULT_TERMS, Terms
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.scheduling.stacks import results
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.brief_slot import STRIKES, TRIALS
from inferwire_server.engine.device import Device
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.opening import Opened
from inferwire_server.engine.runner import TURN_S
from inferwire_server.errors import ServingError
from inferwire_server.tallies import Tallies

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))

NOT_WANTED = ServingError(Code.CANCELLED, "not wanted")


@dataclass
class Rig:
    """A device with a model that notes which threads it computes on; a test moves the clock."""

    terms: Terms = DEFAULT_TERMS
    gate: Gate = field(default_factory=Gate)
    threads: list[int] = field(default_factory=list[int])
    rows: list[int] = field(default_factory=list[int])
    compute: Callable[[Tensor], Tensor] = lambda tensor: tensor
    now: float = 0.0

    def __post_init__(self) -> None:
        self.device = Device("CPU", Scheduler(64), Tallies().of, lambda: self.now)
        model = FakeModel(echo_spec("m"), self._compute, self.gate, is_brief=True)
        slots = ModelSlots.of(model, 2)
        assert slots.brief is not None
        self.brief = slots.brief
        self.device.add_model("m", Opened(model, slots), self.terms)

    def _compute(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        self.threads.append(get_ident())
        self.rows.append(inputs[0].shape[0])
        return (self.compute(inputs[0]),)

    def submit(self, work: Work) -> tuple[Job, asyncio.Future[Job]]:
        """Submit a job, and give the future of its end, which may come only once, and only later."""
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        job = Job("m", work, self.now, on_end=end.set_result)
        self.device.submit(job)
        assert not end.done()
        return job, end

    async def learn(self, rows: int = 1) -> None:
        """Run what it takes to know a shape, and forget what that did."""
        for _ in range(TRIALS):
            await self.submit(Work((stack_of(rows),), (0,)))[1]
        assert get_ident() not in self.threads
        self.threads.clear()
        self.rows.clear()


def stack_of(rows: int) -> Tensor:
    return Tensor(BY_NAME["f32"], (rows, 4), bytes(16 * rows))


@asynccontextmanager
async def a_rig(terms: Terms = DEFAULT_TERMS) -> AsyncGenerator[Rig, None]:
    rig = Rig(terms)
    try:
        yield rig
    finally:
        rig.gate.open()
        rig.device.close()


async def test_what_is_known_to_be_brief_runs_on_the_loop_and_ends_after_submit_has_returned() -> None:
    async with a_rig() as rig:
        await rig.learn()
        job, end = rig.submit(Work((ROW,), (0,)))
        assert (job.state, rig.device.occupancy) == (JobState.RUNNING, Occupancy(1, 2, 0))
        assert (await end).result() == (ROW,)
        assert rig.threads == [get_ident()]
        assert rig.device.occupancy == Occupancy(0, 2, 0)


async def test_a_brief_inference_does_not_wait_for_a_device_that_is_busy_with_another_model() -> None:
    async with a_rig() as rig:
        await rig.learn()
        await rig.submit(Work((ROW,), (0,)))[1]
        gate = Gate()
        gate.close()
        large = FakeModel(echo_spec("large"), gate=gate)
        rig.device.add_model("large", Opened(large, ModelSlots.of(large, 2)))
        ends = [asyncio.get_running_loop().create_future() for _ in range(2)]
        jobs = [Job("large", Work((ROW,), (0,)), rig.now, on_end=end.set_result) for end in ends]
        for job in jobs:
            rig.device.submit(job)
        try:
            async with asyncio.timeout(20):
                assert (await rig.submit(Work((ROW,), (0,)))[1]).result() == (ROW,)
            assert [job.state for job in jobs] == [JobState.RUNNING, JobState.RUNNING]
        finally:
            gate.open()
            await asyncio.gather(*ends)


async def test_an_inference_of_a_brief_model_that_a_thread_runs_takes_a_place() -> None:
    async with a_rig() as rig:
        await rig.learn()
        await rig.submit(Work((ROW,), (0,)))[1]
        large = FakeModel(echo_spec("large"))
        rig.device.add_model("large", Opened(large, ModelSlots.of(large, 2)))
        rig.gate.close()
        unknown = [rig.submit(Work((stack_of(rows),), (0,)))[1] for rows in (2, 3)]
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        job = Job("large", Work((ROW,), (0,)), rig.now, on_end=end.set_result)
        rig.device.submit(job)
        assert job.state is JobState.QUEUED
        rig.gate.open()
        await asyncio.gather(*unknown, end)


async def test_a_job_that_may_end_at_once_has_ended_when_submit_returns() -> None:
    async with a_rig() as rig:
        await rig.learn()
        ended: list[Job] = []
        job = Job("m", Work((ROW,), (0,)), rig.now, on_end=ended.append)
        rig.device.submit(job, at_once=True)
        assert ended == [job]
        assert job.result() == (ROW,)
        assert rig.device.occupancy == Occupancy(0, 2, 0)


@pytest.mark.parametrize("is_batched", [False, True])
async def test_jobs_that_may_run_together_wait_for_those_of_the_same_turn(is_batched: bool) -> None:
    backend = FakeBackend({"m": FakeModel(echo_spec("m"), is_brief=True)})
    async with Engine(backend, QueueOptions(), Tallies().of) as engine:
        options = ModelOptions("m", batching=Batching(8) if is_batched else None)
        model = await engine.load(Source(Path("m.xml")), options)
        has_ended = None
        for _ in range(TRIALS + 1):
            end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
            job = engine.submit(model, Submission(Work((ROW,), (0,))), end.set_result, at_once=True)
            has_ended = job.state.is_terminal
            await end
        assert has_ended is not is_batched


async def test_behind_others_even_that_job_waits_for_its_turn() -> None:
    async with a_rig() as rig:
        await rig.learn()
        ends = [rig.submit(Work((ROW,), (0,)))[1] for _ in range(3)]
        job = Job("m", Work((ROW,), (0,)), rig.now)
        rig.device.submit(job, at_once=True)
        assert job.state is JobState.QUEUED
        await asyncio.gather(*ends)
        await rig.submit(Work((ROW,), (0,)))[1]
        assert job.result() == (ROW,)


async def test_all_of_one_turn_run_on_the_loop_however_many_slots_there_are() -> None:
    async with a_rig() as rig:
        await rig.learn()
        ends = [rig.submit(Work((ROW,), (0,)))[1] for _ in range(10)]
        assert rig.device.occupancy == Occupancy(2, 2, 8)
        assert [(await end).state for end in ends] == [JobState.FINISHED] * 10
        assert set(rig.threads) == {get_ident()}


def taking_a_second(rig: Rig, tensor: Tensor) -> Tensor:
    rig.now += 1.0
    return tensor


async def test_how_long_a_brief_inference_took_does_not_count_its_wait_for_the_loop() -> None:
    async with a_rig() as rig:
        await rig.learn()
        rig.compute = partial(taking_a_second, rig)
        both = [rig.submit(Work((ROW,), (0,)))[1] for _ in range(2)]
        assert [(await end).timings for end in both] == [Timings(0.0, 1.0, 1.0), Timings(1.0, 1.0, 2.0)]
        assert rig.device.tally("m").runs[1].seconds == 2.0


async def test_a_stack_on_the_loop_is_not_charged_for_the_turns_of_others_between_its_own() -> None:
    async with a_rig() as rig:
        await rig.learn()
        rig.compute = partial(taking_a_second, rig)
        both = [rig.submit(Work((stack_of(3),), (0,), executions=3, one_by_one=True))[1] for _ in range(2)]
        assert [(await end).timings for end in both] == [Timings(5.0, 1.0, 6.0)] * 2
        assert rig.device.tally("m").runs[1].seconds == 6.0


async def test_what_comes_in_one_turn_runs_together_once_its_shape_is_known() -> None:
    async with a_rig(Terms(batching=Batching(64))) as rig:
        await rig.learn()
        await rig.learn(7)
        for runs in ([1, 7], [1, 7, 7], [1, 7, 7, 1]):
            ends = [rig.submit(Work((ROW,), (0,)))[1] for _ in range(sum(runs) - sum(rig.rows))]
            assert [(await end).result() for end in ends] == [(ROW,)] * len(ends)
            assert rig.rows == runs
        assert set(rig.threads) == {get_ident()}


async def test_after_a_batch_of_unknown_size_jobs_of_one_turn_run_in_slots_of_their_own_again() -> None:
    async with a_rig(Terms(batching=Batching(64))) as rig:
        await rig.learn()
        await rig.submit(Work((ROW,), (0,)))[1]
        await asyncio.gather(*[rig.submit(Work((ROW,), (0,)))[1] for _ in range(5)])
        assert rig.rows == [1, 5]
        assert rig.threads[0] == get_ident() != rig.threads[1]
        rig.gate.close()
        ends = [rig.submit(Work((stack_of(3),), (0,)))[1] for _ in range(2)]
        await asyncio.to_thread(rig.gate.wait_held, 2)
        rig.gate.open()
        await asyncio.gather(*ends)
        assert rig.rows == [1, 5, 3, 3]


async def test_a_batch_that_is_full_already_waits_for_nothing() -> None:
    async with a_rig(Terms(batching=Batching(4))) as rig:
        await rig.learn()
        await rig.learn(4)
        await rig.submit(Work((ROW,), (0,)))[1]
        full = rig.submit(Work((stack_of(4),), (0,), executions=4))[0]
        alone = rig.submit(Work((ROW,), (0,)))[0]
        assert (full.state, alone.state) == (JobState.RUNNING, JobState.QUEUED)
        await rig.submit(Work((ROW,), (0,)))[1]
        assert rig.rows == [1, 4, 2]


async def test_what_waits_for_others_of_its_turn_can_be_cancelled_expire_and_lose_its_model() -> None:
    async with a_rig(Terms(batching=Batching(64))) as rig:
        await rig.learn()
        await rig.submit(Work((ROW,), (0,)))[1]
        cancelled, expired = rig.submit(Work((ROW,), (0,)))[0], Job("m", Work((ROW,), (0,)), rig.now, deadline=1.0)
        rig.device.submit(expired)
        rig.device.cancel(cancelled, NOT_WANTED)
        rig.now = 2.0
        await asyncio.sleep(0)
        unloaded = rig.submit(Work((ROW,), (0,)))[0]
        await rig.device.remove_model("m", ServingError(Code.MODEL_NOT_READY, "gone"))
        await asyncio.sleep(0)
        ends = [job.state for job in (cancelled, expired, unloaded)]
        assert ends == [JobState.CANCELLED, JobState.EXPIRED, JobState.FAILED]
        assert rig.rows == [1]


@pytest.mark.parametrize("cancelled", [1, 2])
async def test_what_is_cancelled_of_a_batch_as_the_job_before_it_ends_does_not_run(cancelled: int) -> None:
    async with a_rig(Terms(batching=Batching(2))) as rig:
        rig.gate.close()

        def cancel_some(_: Job) -> None:
            for submitted in following[:cancelled]:
                rig.device.cancel(submitted[0], NOT_WANTED)

        for _ in range(2):
            rig.device.submit(Job("m", Work((ROW,), (0,)), rig.now, on_end=cancel_some))
        following = [rig.submit(Work((ROW,), (0,))) for _ in range(2)]
        await asyncio.to_thread(rig.gate.wait_held, 2)
        rig.gate.open()
        ends = [(await end).state for _, end in following]
        assert ends == [JobState.CANCELLED] * cancelled + [JobState.FINISHED] * (2 - cancelled)
        await until(lambda: rig.device.occupancy == Occupancy(0, 2, 0))
        assert rig.rows == [1] * (4 - cancelled)


async def test_a_job_cancelled_before_its_turn_does_not_run() -> None:
    async with a_rig() as rig:
        await rig.learn()
        job, end = rig.submit(Work((ROW,), (0,)))
        rig.device.cancel(job, NOT_WANTED)
        assert (await end).state is JobState.CANCELLED
        await rig.submit(Work((ROW,), (0,)))[1]
        assert len(rig.threads) == 1
        assert rig.device.occupancy == Occupancy(0, 2, 0)


async def test_a_failure_on_the_loop_is_the_jobs_alone() -> None:
    def refuse(_: Tensor) -> Tensor:
        raise ServingError(Code.INFERENCE_FAILED, "no")

    async with a_rig() as rig:
        await rig.learn()
        rig.compute = refuse
        with pytest.raises(ServingError, match="no"):
            (await rig.submit(Work((ROW,), (0,)))[1]).result()
        assert rig.threads == [get_ident()]
        rig.threads.clear()
        rig.compute = lambda tensor: tensor
        assert (await rig.submit(Work((ROW,), (0,)))[1]).result() == (ROW,)
        await rig.learn()
        assert (await rig.submit(Work((ROW,), (0,)))[1]).result() == (ROW,)
        assert rig.threads == [get_ident()]


async def test_what_has_begun_on_the_loop_goes_on_on_threads_once_an_inference_has_failed_there() -> None:
    def refuse_the_second(tensor: Tensor) -> Tensor:
        if len(rig.threads) == 2:
            raise ServingError(Code.INFERENCE_FAILED, "no")
        return tensor

    async with a_rig() as rig:
        await rig.learn()
        rig.compute = refuse_the_second
        stack = rig.submit(Work((stack_of(4),), (0,), executions=4, one_by_one=True))[1]
        behind = rig.submit(Work((ROW,), (0,)))[1]
        assert [result == (ROW,) for result in results(await stack)] == [True, False, True, True]
        assert (await behind).result() == (ROW,)
        assert [thread == get_ident() for thread in rig.threads] == [True, True, False, False, False]
        assert rig.device.occupancy == Occupancy(0, 2, 0)
        rig.threads.clear()
        await rig.submit(Work((ROW,), (0,)))[1]
        await rig.learn()


async def test_what_leaves_the_loop_takes_a_place() -> None:
    def refuse(tensor: Tensor) -> Tensor:
        if len(rig.threads) == 1:
            rig.gate.close()
            raise ServingError(Code.INFERENCE_FAILED, "no")
        return tensor

    async with a_rig() as rig:
        await rig.learn()
        await rig.submit(Work((ROW,), (0,)))[1]
        rig.threads.clear()
        rig.compute = refuse
        stack = rig.submit(Work((stack_of(2),), (0,), executions=2, one_by_one=True))[1]
        await asyncio.to_thread(rig.gate.wait_held, 1)
        large = FakeModel(echo_spec("large"), gate=rig.gate)
        rig.device.add_model("large", Opened(large, ModelSlots.of(large, 2)))
        ends: list[asyncio.Future[Job]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
        jobs = [Job("large", Work((ROW,), (0,)), rig.now, on_end=end.set_result) for end in ends]
        for job in jobs:
            rig.device.submit(job)
        states = [job.state for job in jobs]
        rig.gate.open()
        await asyncio.gather(stack, *ends)
        assert states == [JobState.RUNNING, JobState.QUEUED]


async def test_a_batch_that_fails_on_the_loop_falls_apart_on_a_thread() -> None:
    def refuse_several(tensor: Tensor) -> Tensor:
        if tensor.shape[0] > 1:
            raise ServingError(Code.INFERENCE_FAILED, "no")
        return tensor

    async with a_rig(Terms(batching=Batching(64))) as rig:
        await rig.learn()
        await rig.learn(3)
        await rig.submit(Work((ROW,), (0,)))[1]
        rig.compute = refuse_several
        ends = [rig.submit(Work((ROW,), (0,)))[1] for _ in range(3)]
        assert [(await end).result() for end in ends] == [(ROW,)] * 3
        assert [thread == get_ident() for thread in rig.threads] == [True, True, False, False, False]


async def test_what_leaves_the_loop_fails_where_there_is_no_thread() -> None:
    def refuse(_: Tensor) -> Tensor:
        raise ServingError(Code.INFERENCE_FAILED, "no")

    async with a_rig() as rig:
        rig.brief.try_out([ROW], [0])
        rig.compute = refuse
        with no_new_threads(), capture_logs():
            job = await rig.submit(Work((stack_of(2),), (0,), executions=2, one_by_one=True))[1]
        assert job.error is not None
        assert job.error.code is Code.INTERNAL
        rig.compute = lambda tensor: tensor
        assert (await rig.submit(Work((ROW,), (0,)))[1]).result() == (ROW,)
        assert rig.device.occupancy == Occupancy(0, 2, 0)


async def test_results_that_cannot_be_put_together_on_the_loop_fail_their_job_and_its_slot_goes_on() -> None:
    def give_what_has_gone(tensor: Tensor) -> Tensor:
        data = memoryview(tensor.data)[:]
        data.release()
        return tensor._replace(data=data)

    async with a_rig() as rig:
        await rig.learn()
        rig.compute = give_what_has_gone
        with capture_logs():
            job = await rig.submit(Work((stack_of(2),), (0,), executions=2, one_by_one=True))[1]
        assert job.error is not None
        assert job.error.code is Code.INTERNAL
        rig.compute = lambda tensor: tensor
        assert (await rig.submit(Work((ROW,), (0,)))[1]).result() == (ROW,)
        assert rig.device.occupancy == Occupancy(0, 2, 0)


async def test_a_stack_that_runs_one_by_one_lets_others_have_the_loop_from_time_to_time() -> None:
    async with a_rig() as rig:
        await rig.learn()
        seen: list[int] = []

        def slowly(tensor: Tensor) -> Tensor:
            rig.now += TURN_S / 2
            asyncio.get_running_loop().call_soon(lambda: seen.append(len(rig.threads)))
            return tensor

        rig.compute = slowly
        job = await rig.submit(Work((stack_of(6),), (0,), executions=6, one_by_one=True))[1]
        assert [result == (ROW,) for result in results(job)] == [True] * 6
        assert set(rig.threads) == {get_ident()}
        assert min(seen) < 6


async def test_what_is_profiled_runs_in_a_slot_of_its_own() -> None:
    async with a_rig() as rig:
        await rig.learn()
        job = await rig.submit(Work((ROW,), (0,), is_profiled=True))[1]
        assert job.profile
        assert get_ident() not in rig.threads


async def test_a_trial_that_is_cancelled_stops() -> None:
    async with a_rig() as rig:
        rig.gate.close()
        job, end = rig.submit(Work((ROW,), (0,)))
        await asyncio.to_thread(rig.gate.wait_held, 1)
        rig.device.cancel(job, NOT_WANTED)
        assert (await end).state is JobState.CANCELLED
        await asyncio.to_thread(rig.gate.wait_held, 0)


async def test_a_removed_model_runs_what_has_begun_on_the_loop() -> None:
    async with a_rig() as rig:
        await rig.learn()
        end = rig.submit(Work((ROW,), (0,)))[1]
        gone = rig.device.remove_model("m")
        assert not gone.done()
        assert (await end).result() == (ROW,)
        await gone


@pytest.mark.parametrize("is_batched", [False, True])
async def test_inferences_that_turn_out_long_leave_the_loop(is_batched: bool) -> None:
    def long(tensor: Tensor) -> Tensor:
        sum(range(100_000))
        return tensor

    async with a_rig(Terms(batching=Batching(64)) if is_batched else DEFAULT_TERMS) as rig:
        await rig.learn()
        rig.compute = long
        for _ in range(STRIKES + 1):
            await rig.submit(Work((ROW,), (0,)))[1]
        assert rig.threads[:STRIKES] == [get_ident()] * STRIKES
        assert rig.threads[STRIKES] != get_ident()
