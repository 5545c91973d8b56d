"""The engine: models loaded, run, unloaded, and all of it closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import ref

import pytest
from structlog.testing import capture_logs
from tests.waiting import until

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import Job, JobState, Work
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, FakeSlot, Gate, echo_spec
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError
from inferwire_server.tallies import Tallies

SOURCE = Source(Path("m.xml"))
ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))
WORK = Work((ROW,), (0,))
GONE = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")


class SlotlessModel(FakeModel):
    """A model whose slots cannot be made."""

    def create_slot(self, *, keeps_states: bool = False) -> FakeSlot:
        raise ServingError(Code.MODEL_FAILED, "no memory for a slot")


@asynccontextmanager
async def an_engine(*models: FakeModel, devices: Sequence[str] = ("CPU",)) -> AsyncGenerator[Engine, None]:
    backend = FakeBackend({model.spec.name: model for model in models}, devices)
    async with Engine(backend, QueueOptions(capacity=4), Tallies().of, asyncio.get_running_loop().time) as engine:
        yield engine


def a_model(name: str = "m", *, is_open: bool = True, devices: tuple[str, ...] = ("CPU",)) -> FakeModel:
    return FakeModel(echo_spec(name), gate=Gate(is_open=is_open), devices=devices)


def submit(engine: Engine, model: Model, timeout_s: float | None = None) -> tuple[Job, asyncio.Future[Job]]:
    end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
    return engine.submit(model, Submission(WORK, timeout_s=timeout_s), end.set_result), end


async def test_a_loaded_model_has_its_optimal_slots_on_its_device() -> None:
    async with an_engine(a_model(), devices=("CPU", "GPU")) as engine:
        model = await engine.load(SOURCE, ModelOptions("m"), "3")
        assert (model.name, model.version, model.slots, model.device.name) == ("m", "3", 2, "CPU")
        assert [device.name for device in engine.devices] == ["CPU", "GPU"]
        assert engine.devices[0].models == (model,)
        assert model.properties == {}
        assert repr(model) == "<Model m version 3 on CPU: 2 slots>"
        assert repr(engine) == "<Engine: 1 models on CPU, GPU>"


async def test_as_many_slots_as_are_asked_for() -> None:
    async with an_engine(a_model()) as engine:
        model = await engine.load(SOURCE, ModelOptions("m", slots=5))
        assert engine.devices[0].occupancy == Occupancy(0, 5, 0)
        assert repr(model) == "<Model m on CPU: 5 slots>"


async def test_a_model_for_several_devices_queues_on_the_first() -> None:
    async with an_engine(a_model(devices=("GPU", "CPU"))) as engine:
        assert (await engine.load(SOURCE, ModelOptions("m"))).device.name == "GPU"


async def test_a_device_the_runtime_did_not_list_gets_a_queue_when_a_model_runs_there() -> None:
    async with an_engine(a_model(devices=("NPU",))) as engine:
        model = await engine.load(SOURCE, ModelOptions("m"))
        _, end = submit(engine, model)
        assert (await end).state is JobState.FINISHED
        assert [device.name for device in engine.devices] == ["CPU", "NPU"]


async def test_one_file_loaded_twice_is_two_models() -> None:
    async with an_engine(a_model()) as engine:
        first, second = [await engine.load(SOURCE, ModelOptions("m")) for _ in range(2)]
        await engine.unload(first, GONE)
        _, end = submit(engine, second)
        assert (await end).state is JobState.FINISHED


@pytest.mark.parametrize("models", [(), (SlotlessModel(echo_spec("m")),)])
async def test_a_model_that_does_not_load_leaves_nothing_behind(models: tuple[FakeModel, ...]) -> None:
    async with an_engine(*models) as engine:
        with pytest.raises(ServingError) as caught:
            await engine.load(SOURCE, ModelOptions("m"))
        assert caught.value.code is Code.MODEL_FAILED
        assert engine.devices[0].models == ()


async def test_a_job_runs_with_its_time_limit() -> None:
    fake = a_model(is_open=False)
    async with an_engine(fake) as engine:
        model = await engine.load(SOURCE, ModelOptions("m"))
        late, late_end = submit(engine, model, timeout_s=0.0)
        job, end = submit(engine, model, timeout_s=1000.0)
        await late_end
        assert late.state is JobState.EXPIRED
        fake.gate.open()
        assert (await end).result() == (ROW,)
        assert job.model is model


async def test_an_end_is_counted_then_told_and_then_traced_even_if_whoever_is_told_fails() -> None:
    tallies, told = Tallies(), list[str]()

    class Trace:
        """The trace of each job."""

        def end(self, job: Job) -> None:
            told.append(f"traced as {job.state}")

        def refuse(self, model: Model, submission: Submission, error: ServingError) -> None:
            """Nothing is refused here."""

    def on_end(job: Job) -> None:
        told.append(f"told of {tallies.of('CPU', job.model).outcomes.total()}")
        raise RuntimeError("nobody takes it")

    clock = asyncio.get_running_loop().time
    with capture_logs() as logged:
        async with Engine(FakeBackend({"m": a_model()}), QueueOptions(), tallies.of, clock, Trace) as engine:
            model = await engine.load(SOURCE, ModelOptions("m"), "1")
            failing = engine.submit(model, Submission(WORK), on_end)
            await engine.unload(model)
    assert failing.state is JobState.FINISHED
    assert told == ["told of 1", "traced as finished"]
    assert [entry["event"] for entry in logged] == ["an end was not taken"]


async def test_a_job_of_no_engine_is_a_bug() -> None:
    async with an_engine() as engine:
        job = Job("elsewhere", WORK, 0.0, received_at=0.0)
        job.start(0.0)
        job.finish((), 0.0)
        with pytest.raises(AssertionError, match="<Job on elsewhere: finished> is of no model of an engine; this is a"):
            engine.answered(job)


async def test_unloading_ends_what_waits_lets_the_rest_finish_and_frees_the_model() -> None:
    fake = a_model(is_open=False)
    async with an_engine(fake) as engine:
        model = await engine.load(SOURCE, ModelOptions("m", slots=1))
        running, running_end = submit(engine, model)
        waiting, _ = submit(engine, model)
        unloading = asyncio.ensure_future(engine.unload(model, GONE))
        await asyncio.to_thread(fake.gate.wait_held, 1)
        assert waiting.error is GONE
        assert not unloading.done()
        with pytest.raises(ServingError, match="model 'm' is unloading") as caught:
            submit(engine, model)
        assert caught.value.code is Code.MODEL_NOT_READY
        fake.gate.open()
        await unloading
        assert running_end.done()
        assert running.state is JobState.FINISHED
        assert engine.devices[0].models == ()
        await engine.unload(model, GONE)


async def test_a_kept_job_keeps_nothing_of_a_model_that_was_unloaded_but_what_it_takes_and_gives() -> None:
    models = {"m": a_model()}
    async with Engine(FakeBackend(models), QueueOptions(), Tallies().of) as engine:
        model = await engine.load(SOURCE, ModelOptions("m"))
        job, end = submit(engine, model)
        await end
        compiled = ref(models.pop("m"))
        assert compiled() is not None
        await engine.unload(model, GONE)
        await until(lambda: compiled() is None)  # the thread has told of the job's end, and is not back yet
    assert job.model is model
    assert (model.spec, model.execution_devices) == (echo_spec("m"), ("CPU",))


async def test_whoever_stops_waiting_for_an_unloading_does_not_stop_it() -> None:
    fake = a_model(is_open=False)
    async with an_engine(fake) as engine:
        model = await engine.load(SOURCE, ModelOptions("m", slots=1))
        _, end = submit(engine, model)
        unloading = asyncio.ensure_future(engine.unload(model, GONE))
        await asyncio.to_thread(fake.gate.wait_held, 1)
        unloading.cancel()
        fake.gate.open()
        assert (await end).state is JobState.FINISHED
    assert engine.devices[0].models == ()


@pytest.mark.parametrize("is_unloading", [False, True])
async def test_closing_the_engine_ends_every_job_and_frees_every_model(is_unloading: bool) -> None:
    fake = a_model(is_open=False)
    async with an_engine(fake) as engine:
        model = await engine.load(SOURCE, ModelOptions("m", slots=1))
        running, _ = submit(engine, model)
        waiting, _ = submit(engine, model)
        await asyncio.to_thread(fake.gate.wait_held, 1)
        unloading = asyncio.ensure_future(engine.unload(model, GONE)) if is_unloading else None
        await asyncio.to_thread(fake.gate.wait_held, 1)
    if unloading is not None:
        await unloading
    assert running.state is JobState.CANCELLED
    assert waiting.error is not None
    assert waiting.error.code is (Code.MODEL_NOT_READY if is_unloading else Code.SHUTTING_DOWN)
    assert engine.devices[0].models == ()
    fake.gate.wait_held(0)


def test_a_fake_slot_is_a_slot() -> None:
    slot: Slot = a_model().create_slot()
    assert slot.run((ROW,), (0,)) == (ROW,)
