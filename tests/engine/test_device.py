"""A device: whatever happens to its jobs, every slot returns and every end is told once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from structlog.testing import capture_logs
from tests.engine.conftest import no_new_threads
from tests.waiting import LIMIT_S, until

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.bindings import Binding, BindingTerms
from inferwire_server.core.scheduling.job import Job, JobState, Timings, Work
from inferwire_server.core.scheduling.lane import ModelKey, Terms
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.scheduling.tally import Durations, Tally, TallyOf
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.device import Device
from inferwire_server.engine.fake_backend import FakeModel, FakeSlot, Gate, echo_spec
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.opening import Opened
from inferwire_server.errors import ServingError

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))
WORK = Work((ROW,), (0,))
GONE = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")
NOT_WANTED = ServingError(Code.CANCELLED, "not wanted")


def counted(tally: Tally) -> TallyOf:
    """Have a device count its models in this."""

    def tally_of(device: str, _: ModelKey) -> Tally:
        assert device == "CPU"
        return tally

    return tally_of


@dataclass
class Rig:
    """A device with one model that a test holds."""

    device: Device
    model: FakeModel
    tally: Tally
    ends: list[asyncio.Future[Job]] = field(default_factory=list[asyncio.Future[Job]])

    def submit(self, priority: int = 0, patience_s: float | None = None) -> tuple[Job, asyncio.Future[Job]]:
        """Submit a job, and give the future of its end, which may come only once."""
        loop = asyncio.get_running_loop()
        end: asyncio.Future[Job] = loop.create_future()
        deadline = None if patience_s is None else loop.time() + patience_s
        job = Job("m", WORK, loop.time(), priority, deadline, end.set_result)
        self.device.submit(job)
        self.ends.append(end)
        return job, end

    async def held(self, count: int) -> None:
        """Wait until so many inferences are held."""
        await asyncio.to_thread(self.model.gate.wait_held, count)

    async def is_usable(self) -> None:
        """Prove that no slot is lost: let everything through, and fill all slots at once again."""
        self.model.gate.open()
        slots = self.device.occupancy.slots
        await asyncio.gather(*self.ends)
        for _ in range(2 * slots):
            await self.submit()[1]
        await until(lambda: not self.device.occupancy.running)
        self.model.gate.close()
        jobs = [self.submit() for _ in range(slots)]
        await self.held(slots)
        assert self.device.occupancy == Occupancy(slots, slots, 0)
        self.model.gate.open()
        for _, end in jobs:
            assert (await end).state is JobState.FINISHED
        assert self.device.occupancy == Occupancy(0, slots, 0)


@asynccontextmanager
async def a_rig(
    slots: int = 1, capacity: int = 4, *, is_open: bool = False, can_cancel: bool = True
) -> AsyncGenerator[Rig, None]:
    tally = Tally()
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=is_open), can_cancel=can_cancel)
    device = Device("CPU", Scheduler(capacity), counted(tally), asyncio.get_running_loop().time)
    device.add_model("m", Opened(model, ModelSlots.of(model, slots)))
    rig = Rig(device, model, tally)
    yield rig
    await rig.is_usable()
    await device.remove_model("m", GONE)
    assert tally.submitted == tally.outcomes.total()
    assert tally.runs.get(1, Durations()).count <= tally.batch_sizes.count
    device.close()


async def test_a_job_runs_and_gives_its_outputs() -> None:
    async with a_rig(is_open=True) as rig:
        job, end = rig.submit()
        assert (await end) is job
        assert job.result() == (ROW,)
        assert job.timings != Timings()
        assert rig.tally.outcomes == {"finished": 1}


async def test_as_many_run_as_there_are_slots_and_the_others_wait() -> None:
    async with a_rig(slots=2) as rig:
        for _ in range(5):
            rig.submit()
        await rig.held(2)
        assert rig.device.occupancy == Occupancy(running=2, slots=2, queued=3)
        assert rig.device.occupancy_of("m") == rig.device.occupancy
        assert repr(rig.device) == "<Device CPU: 2/2 slots busy, 3/4 queued>"


async def test_jobs_one_after_the_other_run_on_one_thread() -> None:
    async with a_rig(is_open=True) as rig:
        await rig.submit()[1]
        threads = threading.active_count()
        for _ in range(3):
            await rig.submit()[1]
        assert threading.active_count() <= threads


def fail(_: Sequence[Tensor], error: BaseException) -> tuple[Tensor, ...]:
    raise error


async def test_a_slot_that_raises_fails_its_job_and_is_used_again() -> None:
    async with a_rig(is_open=True) as rig:
        rig.model.compute = partial(fail, error=ServingError(Code.INFERENCE_FAILED, "no"))
        job, end = rig.submit()
        await end
        assert job.state is JobState.FAILED
        assert job.error is not None
        assert (job.error.code, job.error.message) == (Code.INFERENCE_FAILED, "no")
        rig.model.compute = lambda inputs: tuple(inputs)


@pytest.mark.parametrize("error", [KeyError("k"), SystemExit(3)])
async def test_a_bug_in_a_slot_is_logged_under_the_id_that_its_caller_is_told(error: BaseException) -> None:
    async with a_rig(is_open=True) as rig:
        rig.model.compute = partial(fail, error=error)
        with capture_logs() as logs:
            job, end = rig.submit()
            await end
        assert job.error is not None
        assert job.error.code is Code.INTERNAL
        (entry,) = logs
        assert (entry["event"], entry["model"], entry["exc_info"]) == ("bug in a slot", "m", error)
        assert job.error.message == f"a bug in the server; its log has more under id {entry['id']}"
        rig.model.compute = lambda inputs: tuple(inputs)


NO_THREAD = "no thread could be started for the inference: can't start new thread"


async def test_a_job_that_no_thread_can_run_fails_with_why_and_its_slot_is_used_again() -> None:
    async with a_rig(is_open=True) as rig:
        with no_new_threads(), capture_logs() as logs:
            job, end = rig.submit()
            assert not end.done()
            await end
        assert job.error is not None
        assert (job.error.code, job.error.message) == (Code.INTERNAL, NO_THREAD)
        assert [(entry["event"], entry["device"]) for entry in logs] == [("an inference has no thread", "CPU")]
        assert rig.tally.outcomes == {"failed": 1}
        assert rig.tally.runs == {}


async def test_jobs_that_no_thread_can_run_do_not_keep_those_behind_them() -> None:
    async with a_rig(slots=2, is_open=True) as rig:
        assert rig.device.unload_if_idle("m")
        jobs = [rig.submit() for _ in range(3)]
        with no_new_threads(), capture_logs():
            rig.device.open("m", Opened(rig.model, ModelSlots.of(rig.model, 2)))
            for job, end in jobs:
                await end
                assert job.state is JobState.FAILED


async def test_a_binding_ends_where_no_thread_can_let_its_states_go() -> None:
    async with a_rig() as rig:
        rig.device.add_model("bound", Opened(rig.model, ModelSlots.of(rig.model, 1)), Terms(binding=BindingTerms()))
        ended: list[Binding] = []
        binding = rig.device.bind("bound", ended.append)
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        with no_new_threads(), capture_logs():
            rig.device.submit(Job("bound", WORK, 0.0, on_end=end.set_result, binding=binding))
            assert (await end).state is JobState.FAILED
            rig.device.release(binding)
        assert ended == [binding]
        await rig.device.remove_model("bound", GONE)


@pytest.mark.parametrize("ending", ["cancelled", "load failed", "removed"])
async def test_a_binding_ends_whose_only_job_has_waited_for_a_model_that_is_unloaded(ending: str) -> None:
    async with a_rig() as rig:
        rig.device.add_model("bound", Opened(rig.model, ModelSlots.of(rig.model, 1)), Terms(binding=BindingTerms()))
        assert rig.device.unload_if_idle("bound")
        ended: list[Binding] = []
        first, second = (rig.device.bind("bound", ended.append) for _ in range(2))
        jobs = [Job("bound", WORK, 0.0, binding=binding) for binding in (first, second)]
        for job in jobs:
            rig.device.submit(job)
        if ending == "cancelled":
            for job in jobs:
                rig.device.cancel(job, NOT_WANTED)
        elif ending == "load failed":
            rig.device.end_waiting("bound", GONE)
        drained = rig.device.remove_model("bound", GONE)
        assert all(job.state.is_terminal for job in jobs)
        assert ended == [first, second]
        await drained


@dataclass
class SwitchedOutlet:
    """An outlet that is clogged as the test says."""

    is_clogged: bool = True


async def test_a_job_is_held_back_no_longer_than_its_caller_takes_no_answers_whatever_gave_it_its_slot() -> None:
    async with a_rig(is_open=True) as rig:
        terms = Terms(binding=BindingTerms(most=1, may_wait=True))
        rig.device.add_model("bound", Opened(rig.model, ModelSlots.of(rig.model, 1)), terms)
        loop, outlet = asyncio.get_running_loop(), SwitchedOutlet()
        first, second = (rig.device.bind("bound", lambda _: None) for _ in range(2))
        ends: list[asyncio.Future[Job]] = [loop.create_future() for _ in range(2)]
        rig.device.submit(Job("bound", WORK, loop.time(), on_end=ends[0].set_result, binding=first))
        await ends[0]
        job = Job("bound", WORK, loop.time(), on_end=ends[1].set_result, binding=second, outlet=outlet)
        rig.device.submit(job)
        drained = rig.device.remove_model("bound")
        assert job.state is JobState.QUEUED
        outlet.is_clogged = False
        async with asyncio.timeout(LIMIT_S):
            assert (await ends[1]).state is JobState.FINISHED
        await drained


class Kept:
    """What a slot keeps for its caller, and takes long to let go of."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __del__(self) -> None:
        self._gate.pass_through(lambda: False)


class KeepingSlot(FakeSlot):
    """A slot with something to let go of."""

    def __init__(self, model: FakeModel, gate: Gate) -> None:
        super().__init__(model, keeps_states=True)
        self._kept = Kept(gate)


def test_states_that_go_after_the_loop_has_ended_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    gate = Gate(is_open=False)

    async def use_and_release() -> None:
        loop = asyncio.get_running_loop()
        model = FakeModel(echo_spec("m"))
        device = Device("CPU", Scheduler(4), counted(Tally()), loop.time)
        slots = ModelSlots([FakeSlot(model, keeps_states=False)], partial(KeepingSlot, model, gate))
        device.add_model("m", Opened(model, slots), Terms(binding=BindingTerms()))
        binding = device.bind("m", lambda _: None)
        end: asyncio.Future[Job] = loop.create_future()
        device.submit(Job("m", WORK, loop.time(), on_end=end.set_result, binding=binding))
        assert (await end).state is JobState.FINISHED
        device.release(binding)
        await asyncio.to_thread(gate.wait_held, 1)
        await device.remove_model("m", GONE)
        device.close()

    asyncio.run(use_and_release())
    gate.open()
    for thread in threading.enumerate():
        if thread.name.startswith("free-CPU"):
            thread.join(LIMIT_S)
    assert raised == []


async def test_a_queued_job_is_cancelled_at_once() -> None:
    async with a_rig() as rig:
        rig.submit()
        job, end = rig.submit()
        rig.device.cancel(job, NOT_WANTED)
        assert end.done()
        assert job.state is JobState.CANCELLED
        assert job.error is not None
        assert (job.error.code, job.error.message) == (Code.CANCELLED, "not wanted")
        assert rig.device.occupancy.queued == 0


@pytest.mark.parametrize("can_cancel", [True, False])
async def test_a_running_job_is_cancelled_at_once_and_its_slot_when_it_reports(can_cancel: bool) -> None:
    async with a_rig(can_cancel=can_cancel) as rig:
        job, end = rig.submit()
        await rig.held(1)
        rig.device.cancel(job, NOT_WANTED)
        assert end.done()
        assert job.state is JobState.CANCELLED
        assert rig.device.occupancy.running == 1
        await rig.is_usable()
        assert rig.tally.outcomes["cancelled"] == 1


async def test_a_cancelled_job_of_a_binding_is_stopped_where_it_runs() -> None:
    async with a_rig() as rig:
        rig.device.add_model("bound", Opened(rig.model, ModelSlots.of(rig.model, 1)), Terms(binding=BindingTerms()))
        job = Job("bound", WORK, 0.0, binding=rig.device.bind("bound", lambda _: None))
        rig.device.submit(job)
        await rig.held(1)
        rig.device.cancel(job, NOT_WANTED)
        await until(lambda: not rig.device.occupancy_of("bound").running)
        await rig.device.remove_model("bound", GONE)


async def test_a_job_is_cancelled_before_its_thread_has_it() -> None:
    async with a_rig(slots=2) as rig:
        for _ in range(20):
            job, end = rig.submit()
            rig.device.cancel(job, NOT_WANTED)
            assert end.done()
            rig.model.gate.open()
            await rig.is_usable()


async def test_cancelling_an_ended_job_does_nothing() -> None:
    async with a_rig(is_open=True) as rig:
        job, end = rig.submit()
        await end
        rig.device.cancel(job, NOT_WANTED)
        assert job.state is JobState.FINISHED


async def test_the_next_job_cancelled_as_the_one_before_it_ends_does_not_run() -> None:
    async with a_rig() as rig:
        loop = asyncio.get_running_loop()
        computed: list[int] = []
        rig.model.compute = lambda inputs: (computed.append(len(inputs)), *inputs)[1:]
        following, following_end = Job("m", WORK, loop.time()), loop.create_future()
        following.on_end = following_end.set_result
        first = Job("m", WORK, loop.time(), on_end=lambda _: rig.device.cancel(following, NOT_WANTED))
        rig.device.submit(first)
        rig.device.submit(following)
        rig.model.gate.open()
        assert (await following_end).state is JobState.CANCELLED
        assert first.state is JobState.FINISHED
        await rig.submit()[1]
        assert computed == [1, 1]


async def test_a_job_submitted_as_another_ends_runs() -> None:
    async with a_rig(is_open=True) as rig:
        loop = asyncio.get_running_loop()
        end: asyncio.Future[Job] = loop.create_future()
        second = Job("m", WORK, loop.time(), on_end=end.set_result)
        rig.device.submit(Job("m", WORK, loop.time(), on_end=lambda _: rig.device.submit(second)))
        assert (await end).state is JobState.FINISHED


async def test_a_waiter_that_raises_loses_neither_a_slot_nor_the_next_job() -> None:
    async with a_rig() as rig:
        loop = asyncio.get_running_loop()

        def refuse(_: Job) -> None:
            raise LookupError("nobody waits")

        rig.device.submit(Job("m", WORK, loop.time(), on_end=refuse))
        _, end = rig.submit()
        with capture_logs() as logs:
            rig.model.gate.open()
            assert (await end).state is JobState.FINISHED
        assert [entry["event"] for entry in logs] == ["an end was not taken"]


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_job_expires_by_its_deadline_running_or_not(is_running: bool) -> None:
    async with a_rig() as rig:
        if not is_running:
            rig.submit()
            await rig.held(1)
        job, end = rig.submit(patience_s=0.0)
        await end
        assert job.state is JobState.EXPIRED
        assert job.error is not None
        assert job.error.code is Code.DEADLINE_EXCEEDED


async def test_an_earlier_deadline_that_comes_later_is_kept_and_the_later_one_stays() -> None:
    async with a_rig() as rig:
        rig.submit()
        patient, _ = rig.submit(patience_s=1000.0)
        _, soon_end = rig.submit(patience_s=0.002)
        _, now_end = rig.submit(patience_s=0.0)
        await now_end
        await soon_end
        assert rig.tally.outcomes == {"expired": 2}
        assert patient.state is JobState.QUEUED


async def test_a_deadline_that_is_met_expires_nothing() -> None:
    async with a_rig(is_open=True) as rig:
        job, end = rig.submit(patience_s=1000.0)
        await end
        assert job.state is JobState.FINISHED


async def test_a_refused_job_is_counted_and_its_end_is_not_told() -> None:
    async with a_rig(capacity=1) as rig:
        rig.submit()
        rig.submit()
        with pytest.raises(ServingError, match="the device's queue is full") as caught:
            rig.submit()
        assert caught.value.code is Code.QUEUE_FULL
        assert rig.tally.outcomes == {"refused": 1}
        assert rig.device.queue_capacity == 1


async def test_a_removed_model_refuses_ends_what_waits_and_goes_when_the_last_has_run() -> None:
    async with a_rig() as rig:
        rig.device.add_model("other", Opened(rig.model, ModelSlots.of(rig.model, 1)))
        running = Job("other", WORK, 0.0)
        waiting = Job("other", WORK, 0.0)
        rig.device.submit(running)
        rig.device.submit(waiting)
        gone = rig.device.remove_model("other", GONE)
        assert rig.device.remove_model("other", GONE) is gone
        assert waiting.error is GONE
        assert not gone.done()
        with pytest.raises(ServingError, match="model 'other' is unloading"):
            rig.device.submit(Job("other", WORK, 0.0))
        assert rig.tally.outcomes["refused"] == 1
        rig.model.gate.open()
        await gone
        assert running.state is JobState.FINISHED
        assert rig.device.models == ("m",)
        assert rig.tally.outcomes["finished"] == 1


async def test_a_job_that_waits_for_the_device_starts_when_a_model_is_added_that_lets_more_run() -> None:
    async with a_rig() as rig:
        rig.device.add_model("other", Opened(rig.model, ModelSlots.of(rig.model, 1)))
        rig.submit()
        waiting = Job("other", WORK, 0.0)
        rig.device.submit(waiting)
        assert (waiting.state, rig.device.occupancy) == (JobState.QUEUED, Occupancy(1, 1, 1))
        rig.device.add_model("wide", Opened(rig.model, ModelSlots.of(rig.model, 2)))
        assert (waiting.state, rig.device.occupancy) == (JobState.RUNNING, Occupancy(2, 2, 0))
        rig.model.gate.open()
        await rig.device.remove_model("wide")
        await rig.device.remove_model("other")
        assert waiting.state is JobState.FINISHED


async def test_whoever_stops_waiting_for_a_model_to_go_does_not_keep_it() -> None:
    async with a_rig() as rig:
        rig.device.add_model("other", Opened(rig.model, ModelSlots.of(rig.model, 1)))
        rig.device.submit(Job("other", WORK, 0.0))
        rig.device.remove_model("other", GONE).cancel()
        rig.model.gate.open()
        await rig.is_usable()
        assert rig.device.models == ("m",)


async def test_all_jobs_are_cancelled_at_once() -> None:
    async with a_rig() as rig:
        jobs = [rig.submit()[0] for _ in range(3)]
        rig.device.cancel_all(NOT_WANTED)
        assert [job.state for job in jobs] == [JobState.CANCELLED] * 3


async def test_a_closed_device_expires_nothing_more() -> None:
    loop = asyncio.get_running_loop()
    device = Device("CPU", Scheduler(1), counted(Tally()), loop.time)
    gate = Gate(is_open=False)
    model = FakeModel(echo_spec("m"), gate=gate)
    device.add_model("m", Opened(model, ModelSlots.of(model, 1)))
    end: asyncio.Future[Job] = loop.create_future()
    device.submit(Job("m", WORK, loop.time(), deadline=loop.time() + 1000.0, on_end=end.set_result))
    timer = device._timer  # pyright: ignore[reportPrivateUsage]
    gate.open()
    await end
    device.close()
    assert timer is not None
    assert timer.cancelled()
