"""A model that nobody uses is unloaded, and whoever asks for it again does not notice but by the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.waiting import until

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Job, JobState
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.core.version_states import VersionState
from inferwire_server.engine.fake_backend import FakeModel, FakeSlot, Gate, echo_spec
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError
from inferwire_server.repository.catalogue import Served
from inferwire_server.server import Composition
from inferwire_server.service.values import Inference, ServedModel, Wanted

Serving = Callable[..., AbstractAsyncContextManager[Composition]]
Leap = Callable[[float], None]

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))
INFERENCE = Inference(Wanted(ServedModel("m")), (("x", ROW),))
IDLE_S = 600.0


class Reopening(FakeModel):
    """A model whose opening a test holds, fails and counts."""

    def __init__(self, spec: ModelSpec | None = None) -> None:
        super().__init__(spec or echo_spec("m"), optimal_slots=2)
        self.opening = Gate()
        self.opened = 0
        self.failure: Exception | None = None

    def create_slot(self, *, keeps_states: bool = False) -> FakeSlot:
        self.opening.pass_through(lambda: False)
        if self.failure is not None:
            raise self.failure
        self.opened += 1
        return super().create_slot(keeps_states=keeps_states)


class Rig:
    """A server with one model, and what a test does to it."""

    def __init__(self, server: Composition, model: Reopening, leap: Leap) -> None:
        self.server, self.model, self.leap = server, model, leap
        self.inference = server.services.inference

    @property
    def served(self) -> Served:
        return self.server.catalogue.find("m")

    @property
    def device_occupancy(self) -> Occupancy:
        return self.server.engine.devices[0].occupancy

    def submit(self, inference: Inference = INFERENCE) -> asyncio.Future[Job]:
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self.inference.submit(inference, end.set_result)
        return end

    async def comes_to(self, state: VersionState) -> None:
        await until(lambda: self.served.state is state)

    async def gets_unloaded(self) -> None:
        self.leap(IDLE_S + 1)
        await self.comes_to(VersionState.UNLOADED)

    async def stays_loaded(self) -> None:
        for _ in range(2):
            self.leap(IDLE_S + 1)
            await self.turns()
            assert self.served.state is VersionState.READY

    async def turns(self) -> None:
        """Let everything happen that is due."""
        for _ in range(10):
            await asyncio.to_thread(int)


@pytest.fixture
async def rig(serving: Serving, tmp_path: Path, leap: Leap) -> AsyncGenerator[Rig]:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[Rig]:
        model = Reopening()
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "inferwire.toml").write_text(f"idle_unload_s = {IDLE_S}\n[warm_up]\nx = [1, 4]\n")
        async with serving(model) as server:
            yield Rig(server, model, leap)
            for gate in (model.gate, model.opening):
                gate.open()

    async with opened() as made:
        yield made


async def test_it_is_unloaded_and_loaded_again_for_the_next_job(rig: Rig) -> None:
    await rig.gets_unloaded()
    assert rig.served.reason == "no job for 600 s; the next one loads it again"
    assert rig.device_occupancy == Occupancy(0, 0, 0)
    services = rig.server.services
    assert services.health.is_model_ready("m")
    assert services.models.versions("m") == ("1",)
    model = services.models.resolve(ServedModel("m"))
    assert model.spec == rig.model.spec
    with pytest.raises(ServingError, match="'m' is unloaded until its next job: run an inference first") as caught:
        await services.models.layers(ServedModel("m"))
    assert caught.value.code is Code.MODEL_NOT_READY
    assert rig.model.opened == 2
    job = await rig.submit()
    assert job.result() == (ROW,)
    assert (rig.served.state, rig.served.reason, rig.served.model) == (VersionState.READY, "", model)
    assert (rig.model.opened, rig.device_occupancy.slots) == (4, 2)
    await rig.gets_unloaded()


async def test_it_is_not_unloaded_while_it_has_jobs_and_not_soon_after(rig: Rig) -> None:
    rig.model.gate.close()
    end = rig.submit()
    await asyncio.to_thread(rig.model.gate.wait_held, 1)
    rig.leap(10 * IDLE_S)
    await rig.turns()
    assert rig.served.state is VersionState.READY
    rig.model.gate.open()
    await end
    rig.leap(IDLE_S - 60)
    await rig.turns()
    assert rig.served.state is VersionState.READY
    rig.leap(61)
    await rig.comes_to(VersionState.UNLOADED)


async def test_jobs_wait_for_it_within_their_deadlines(rig: Rig) -> None:
    await rig.gets_unloaded()
    rig.model.opening.close()
    patient, hurried = rig.submit(), rig.submit(INFERENCE._replace(wanted=INFERENCE.wanted._replace(timeout_s=0.01)))
    assert (await hurried).state is JobState.EXPIRED
    assert (rig.device_occupancy.queued, rig.served.state) == (1, VersionState.UNLOADED)
    rig.model.opening.open()
    assert (await patient).state is JobState.FINISHED
    assert rig.model.opened == 4


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ServingError(Code.MODEL_FAILED, "the device is lost"), "the device is lost"),
        (KeyError("odd"), "KeyError: 'odd'"),
    ],
)
async def test_if_it_cannot_be_loaded_those_who_wait_are_told_and_the_next_tries_again(
    rig: Rig, failure: Exception, reason: str
) -> None:
    await rig.gets_unloaded()
    rig.model.failure = failure
    jobs = await asyncio.gather(rig.submit(), rig.submit())
    for job in jobs:
        assert job.error is not None
        assert (job.error.code, job.error.message) == (Code.MODEL_FAILED, f"failed to load 'm' again: {reason}")
    assert rig.served.reason == f"it could not be loaded again: {reason}; the next job tries it"
    rig.model.failure = None
    assert (await rig.submit()).state is JobState.FINISHED


async def test_files_that_are_another_model_now_are_not_taken_for_it(rig: Rig) -> None:
    await rig.gets_unloaded()
    rig.model.spec = replace(rig.model.spec, outputs=echo_spec("m", width=5).outputs)
    job = await rig.submit()
    assert job.error is not None
    assert job.error.message.startswith("failed to load 'm' again: its files have other inputs, outputs or states now")
    await rig.server.loader.load("m")
    assert rig.server.services.models.resolve(ServedModel("m")).spec == rig.model.spec


async def test_files_with_the_same_states_in_another_order_are_the_same_model(rig: Rig) -> None:
    rig.model.spec = replace(rig.model.spec, states=("near", "far"))
    await rig.server.loader.load("m")
    await rig.gets_unloaded()
    rig.model.spec = replace(rig.model.spec, states=("far", "near"))
    assert (await rig.submit()).state is JobState.FINISHED


async def is_unloaded_as_it_is_loaded(rig: Rig) -> None:
    """Unload it for good while a job has it loaded, which runs all the same."""
    await rig.gets_unloaded()
    rig.model.opening.close()
    end = rig.submit()
    unloading = asyncio.create_task(rig.server.loader.unload("m"))
    await rig.comes_to(VersionState.DRAINING)
    rig.model.opening.open()
    await unloading
    assert (await end).state is JobState.FINISHED


async def test_it_can_be_unloaded_for_good_as_it_is_loaded_and_runs_what_waits(rig: Rig) -> None:
    await is_unloaded_as_it_is_loaded(rig)
    assert (rig.served.state, rig.served.model) == (VersionState.UNLOADED, None)


async def test_one_that_was_unloaded_for_good_as_it_was_loaded_is_watched_no_more(rig: Rig) -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    await is_unloaded_as_it_is_loaded(rig)
    rig.leap(IDLE_S + 1)
    await rig.turns()
    assert errors == []


async def test_one_that_was_unloaded_for_good_is_not_loaded_by_what_was_cancelled(rig: Rig) -> None:
    await rig.gets_unloaded()
    rig.model.opening.close()
    job_id = rig.server.services.jobs.start(INFERENCE)
    unloading = asyncio.create_task(rig.server.loader.unload("m"))
    await rig.comes_to(VersionState.DRAINING)
    rig.server.services.jobs.cancel(job_id)
    await unloading
    rig.model.opening.open()
    await rig.turns()
    assert (rig.device_occupancy, rig.served.state) == (Occupancy(0, 0, 0), VersionState.UNLOADED)


async def test_a_reload_that_fails_leaves_it_unloaded(rig: Rig) -> None:
    await rig.gets_unloaded()
    rig.model.failure = ServingError(Code.MODEL_FAILED, "no")
    with pytest.raises(ServingError, match="no"):
        await rig.server.loader.load("m")
    assert (rig.served.state, rig.served.reason) == (VersionState.UNLOADED, "the reload failed: no")
    job = await rig.submit()
    assert job.error is not None
    assert (rig.served.reason, rig.served.load_failed) == ("the reload failed: no", True)
    rig.model.failure = None
    assert (await rig.submit()).state is JobState.FINISHED
    assert rig.served.state is VersionState.READY
    assert (rig.served.reason, rig.served.load_failed) == ("the reload failed: no", True)
    await rig.server.loader.load("m")
    assert (rig.served.reason, rig.served.load_failed) == ("", False)


async def test_one_whose_reload_has_failed_stays_loaded(rig: Rig) -> None:
    rig.model.failure = ServingError(Code.MODEL_FAILED, "no")
    with pytest.raises(ServingError, match="no"):
        await rig.server.loader.load("m")
    await rig.stays_loaded()
    assert (await rig.submit()).state is JobState.FINISHED
    assert rig.served.reason == "the reload failed: no"
    rig.model.failure = None
    await rig.server.loader.load("m")
    await rig.gets_unloaded()


async def test_one_whose_files_are_others_now_stays_loaded_until_it_is_from_those(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "m" / "1" / "model.onnx").write_text("broken")
    rig.model.failure = ServingError(Code.MODEL_FAILED, "no")
    await rig.stays_loaded()
    assert (await rig.submit()).state is JobState.FINISHED
    rig.model.failure = None
    await rig.server.loader.sync()
    await rig.gets_unloaded()


async def test_one_that_has_a_job_as_its_files_are_looked_at_stays_loaded(rig: Rig) -> None:
    rig.leap(IDLE_S + 1)
    for _ in range(2):
        await asyncio.sleep(0)  # its limit is over from the second turn
    assert (await rig.submit()).state is JobState.FINISHED
    await rig.turns()
    assert rig.served.state is VersionState.READY
    await rig.gets_unloaded()


async def test_a_version_that_is_unloaded_as_idle_is_not_passed_over_for_an_older_one(rig: Rig) -> None:
    await rig.gets_unloaded()
    unloaded = rig.server.services.models.resolve(ServedModel("m"))
    assert isinstance(unloaded, Model)
    rig.server.catalogue.put(replace(rig.served, version="0", state=VersionState.READY))
    assert rig.served.version == "1"


async def test_one_that_takes_encoded_pictures_does_so_when_it_is_loaded_again(
    serving: Serving, tmp_path: Path, leap: Leap
) -> None:
    shape = tuple(Dimension(length, length) for length in (1, 1, 2, 3))
    x, y = (PortSpec(frozenset({name}), name, BY_NAME["u8"], shape, name, "") for name in ("x", "y"))
    model = Reopening(ModelSpec("m", (x,), (y,)))
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "inferwire.toml").write_text(f"idle_unload_s = {IDLE_S}\n[preprocessing.x]\nencoded = true\n")
    file = BytesIO()
    Image.new("RGB", (2, 1), (1, 2, 3)).save(file, "PNG")
    picture = Tensor(BY_NAME["string"], (1,), strings.pack([file.getvalue()]))
    async with serving(model) as server:
        rig = Rig(server, model, leap)
        await rig.gets_unloaded()
        (pixels,) = (await rig.submit(Inference(Wanted(ServedModel("m")), (("x", picture),)))).result()
    assert bytes(pixels.data) == bytes((1, 2, 3, 1, 2, 3))


async def test_a_server_that_ends_as_it_is_loaded_tells_those_who_wait(
    serving: Serving, tmp_path: Path, leap: Leap
) -> None:
    model = Reopening()
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "inferwire.toml").write_text(f"idle_unload_s = {IDLE_S}\n")
    async with serving(model) as server:
        rig = Rig(server, model, leap)
        await rig.gets_unloaded()
        model.opening.close()
        end = rig.submit()
    model.opening.open()
    error = (await end).error
    assert error is not None
    assert error.code is Code.SHUTTING_DOWN
