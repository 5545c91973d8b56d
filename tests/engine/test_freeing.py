"""A model's memory goes on a thread, in an order that lets others run, and whoever waits for it is told then."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import get_ident
from typing import Any
from weakref import finalize

import numpy as np
import openvino as ov
import openvino.opset13 as ops
import pytest
from structlog.testing import capture_logs
from tests.engine.conftest import no_new_threads
from tests.waiting import LIMIT_S, until

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.job import Job, JobState, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, FakeSlot, Gate, echo_spec
from inferwire_server.engine.freeing import FREED_AT_ONCE, Freeing
from inferwire_server.engine.models import Model
from inferwire_server.engine.opening import open_model
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.slots import OpenVinoSlot
from inferwire_server.tallies import Tallies

SOURCE = Source(Path("m.xml"))
WORK = Work((Tensor(BY_NAME["f32"], (1, 4), bytes(16)),), (0,))
GONE = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")


@dataclass
class NotingModel(FakeModel):
    """A model that notes on which threads its slots are freed, and takes as long as a gate says."""

    freed_on: list[int] = field(default_factory=list[int])
    freeing: Gate = field(default_factory=Gate)

    def create_slot(self, *, keeps_states: bool = False) -> FakeSlot:
        return self._noted(super().create_slot(keeps_states=keeps_states))

    def create_brief_slot(self) -> FakeSlot | None:
        slot = super().create_brief_slot()
        return slot and self._noted(slot)

    async def is_freed(self, count: int) -> None:
        """Wait until so many slots are freed: the thread that ran one may not be back yet."""
        await until(lambda: len(self.freed_on) >= count)
        assert len(self.freed_on) == count

    def _noted(self, slot: FakeSlot) -> FakeSlot:
        finalize(slot, self._note)
        return slot

    def _note(self) -> None:
        self.freed_on.append(get_ident())
        self.freeing.pass_through(lambda: False)


@dataclass(eq=False)
class HeldMemory:
    """Something that takes as long to free as a gate says."""

    gate: Gate
    is_freed: bool = False

    def free(self) -> None:
        self.gate.pass_through(lambda: False)
        self.is_freed = True


class SlowlyCompiling(FakeBackend):
    """A runtime that compiles no faster than a gate says."""

    def __init__(self, model: FakeModel) -> None:
        super().__init__({"m": model})
        self.gate = Gate(is_open=False)

    def compile(self, source: Source, options: ModelOptions) -> FakeModel:
        self.gate.pass_through(lambda: False)
        return super().compile(source, options)


class Keeper:
    """A keeper that has a model unloaded once, and notes what it is told."""

    def __init__(self) -> None:
        self.has_unloaded = asyncio.Event()
        self.has_loaded = asyncio.Event()

    async def may_unload(self, model: Model) -> bool:
        return not self.has_unloaded.is_set()

    def unloaded(self, model: Model, reason: str) -> None:
        self.has_unloaded.set()

    def loaded_again(self, model: Model) -> None:
        self.has_loaded.set()


@pytest.fixture
def noting() -> NotingModel:
    return NotingModel(echo_spec("m"))


def an_engine(model: FakeModel) -> Engine:
    return Engine(FakeBackend({"m": model}), QueueOptions(), Tallies().of)


def submit(engine: Engine, model: Model) -> asyncio.Future[Job]:
    end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
    engine.submit(model, Submission(WORK), end.set_result)
    return end


async def test_a_model_is_freed_on_a_thread_and_unloaded_once_that_is_done(noting: NotingModel) -> None:
    async with an_engine(noting) as engine:
        model = await engine.load(SOURCE, ModelOptions("m"))
        assert (await submit(engine, model)).state is JobState.FINISHED
        noting.freeing.close()
        unloading = asyncio.ensure_future(engine.unload(model, GONE))
        await asyncio.to_thread(noting.freeing.wait_held, 1)
        assert not unloading.done()
        assert not model.is_loaded
        noting.freeing.open()
        await unloading
        await noting.is_freed(2)
        assert get_ident() not in noting.freed_on
        assert engine.devices[0].freeing.under_way == ()


@pytest.mark.parametrize("is_brief", [False, True])
async def test_the_loop_does_not_free_a_model_by_the_slot_that_ran_its_last_job(
    noting: NotingModel, is_brief: bool
) -> None:
    noting.is_brief = is_brief
    async with an_engine(noting) as engine:
        model = await engine.load(SOURCE, ModelOptions("m", slots=1, warm_up={"x": (1, 4)}))
        end = submit(engine, model)
        await engine.unload(model)
        assert (await end).state is JobState.FINISHED
        await noting.is_freed(1 + is_brief)
        assert get_ident() not in noting.freed_on


async def test_what_the_loop_is_doing_ends_before_anything_is_freed() -> None:
    """It may hold the slot that it has heard of the end of: the model would go with that, on the loop."""

    class Memory:
        is_freed = False

        def free(self) -> None:
            self.is_freed = True

    freeing, memory = Freeing("CPU"), Memory()
    with no_new_threads():
        freed = freeing.begin(memory)
        assert not memory.is_freed
        await freed
    assert memory.is_freed
    freeing.close()


async def test_however_much_is_freed_a_device_takes_few_threads_for_it() -> None:
    before = set(threading.enumerate())
    freeing, gate = Freeing("CPU"), Gate(is_open=False)
    memories = [HeldMemory(gate) for _ in range(10 * FREED_AT_ONCE)]
    freed = [freeing.begin(memory) for memory in memories]
    assert repr(freeing) == f"<Freeing: {10 * FREED_AT_ONCE} under way>"
    await asyncio.sleep(0)
    threads = set(threading.enumerate()) - before
    assert len(threads) == FREED_AT_ONCE
    gate.open()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*freed)
    assert all(memory.is_freed for memory in memories)
    freeing.close()
    for thread in threads:
        await asyncio.to_thread(thread.join, LIMIT_S)
        assert not thread.is_alive()


async def test_what_takes_long_to_free_keeps_no_inference_waiting(noting: NotingModel) -> None:
    gate = Gate(is_open=False)
    async with an_engine(noting) as engine, asyncio.timeout(LIMIT_S):
        model = await engine.load(SOURCE, ModelOptions("m"))
        freed = [model.device.freeing.begin(HeldMemory(gate)) for _ in range(2 * FREED_AT_ONCE)]
        await asyncio.to_thread(gate.wait_held, FREED_AT_ONCE)
        assert (await submit(engine, model)).state is JobState.FINISHED
        gate.open()
        await asyncio.gather(*freed)


async def test_a_model_that_is_unloaded_as_idle_is_freed_on_a_thread_too(noting: NotingModel) -> None:
    keeper = Keeper()
    async with an_engine(noting) as engine, asyncio.timeout(LIMIT_S):
        noting.freeing.close()
        model = await engine.load(SOURCE, ModelOptions("m", slots=1, idle_unload_s=0.001), keeper=keeper)
        await keeper.has_unloaded.wait()
        await asyncio.to_thread(noting.freeing.wait_held, 1)
        (freed,) = engine.devices[0].freeing.under_way
        assert (await submit(engine, model)).state is JobState.FINISHED
        noting.freeing.open()
        await freed
        await noting.is_freed(1)
        assert get_ident() not in noting.freed_on


async def test_one_that_is_loaded_again_for_nobody_is_freed_on_a_thread(noting: NotingModel) -> None:
    keeper, backend = Keeper(), SlowlyCompiling(noting)
    opening = backend.gate
    opening.open()
    async with Engine(backend, QueueOptions(), Tallies().of) as engine, asyncio.timeout(LIMIT_S):
        model = await engine.load(SOURCE, ModelOptions("m", slots=1, idle_unload_s=0.001), keeper=keeper)
        await keeper.has_unloaded.wait()
        opening.close()
        submit(engine, model)
        await asyncio.to_thread(opening.wait_held, 1)
        await engine.unload(model, GONE)
        opening.open()
        await noting.is_freed(2)
        assert get_ident() not in noting.freed_on
    assert not keeper.has_loaded.is_set()


@pytest.mark.parametrize("is_open", [False, True], ids=["while it is opened", "as it has been"])
async def test_one_whose_caller_goes_before_it_is_open_is_freed_on_a_thread(
    noting: NotingModel, *, is_open: bool
) -> None:
    backend = SlowlyCompiling(noting)
    async with Engine(backend, QueueOptions(), Tallies().of) as engine, asyncio.timeout(LIMIT_S):
        loading = asyncio.ensure_future(engine.load(SOURCE, ModelOptions("m")))
        await asyncio.to_thread(backend.gate.wait_held, 1)
        if is_open:
            backend.gate.open()
            while engine.opening.calls:
                continue  # without a turn of the loop, which so has not heard of its end
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        backend.gate.open()
        await noting.is_freed(2)
        assert get_ident() not in noting.freed_on
        assert engine.devices[0].models == ()


async def test_one_that_is_opened_for_nobody_once_the_engine_is_closed_is_no_error(
    noting: NotingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferwire_server.engine.engine.CLOSE_S", 0.0)
    backend = SlowlyCompiling(noting)
    async with Engine(backend, QueueOptions(), Tallies().of) as engine, asyncio.timeout(LIMIT_S):
        loading = asyncio.ensure_future(engine.load(SOURCE, ModelOptions("m")))
        await asyncio.to_thread(backend.gate.wait_held, 1)
        loading.cancel()
        await asyncio.wait([loading])
    assert engine.stuck == 1
    backend.gate.open()
    await noting.is_freed(2)


def fail(_: object) -> Any:
    raise ServingError(Code.INFERENCE_FAILED, "no")


@pytest.mark.parametrize(
    "options",
    [
        ModelOptions("m", warm_up={"x": (1, 4)}),
        ModelOptions("m", batching=Batching(4)),
    ],
    ids=["warm-up", "row check"],
)
async def test_one_that_turns_out_to_be_of_no_use_is_freed_where_it_was_opened_whoever_keeps_the_error(
    noting: NotingModel, options: ModelOptions
) -> None:
    noting.compute = fail
    async with an_engine(noting) as engine:
        with pytest.raises(ServingError, match="no"):
            await engine.load(SOURCE, options)
        assert len(noting.freed_on) == 2
        assert get_ident() not in noting.freed_on


async def test_openvinos_model_whose_labels_do_not_fit_is_freed_whoever_keeps_the_error(tmp_path: Path) -> None:
    data, freed_on = ops.parameter([-1, 4], np.float32, name="x"), list[int]()
    make: Any = ov.Model
    ov.save_model(make([ops.result(ops.relu(data))], [data], "m"), tmp_path / "m.xml")

    class Noting(OpenVinoBackend):
        """Notes where a compiled model is freed."""

        def compile(self, source: Source, options: ModelOptions) -> OpenVinoModel:
            model = super().compile(source, options)
            graphs = model._graphs  # pyright: ignore[reportPrivateUsage]
            finalize(graphs.compiled, lambda: freed_on.append(get_ident()))
            return model

    async with Engine(Noting(), QueueOptions(), Tallies().of) as engine:
        with pytest.raises(ServingError, match="label"):
            await engine.load(Source(tmp_path / "m.xml"), ModelOptions("m", labels=("one", "two")))
        assert len(freed_on) == 1
        assert get_ident() not in freed_on


@pytest.mark.parametrize("is_unloading", [False, True])
async def test_a_closing_engine_does_not_wait_until_its_models_are_freed(
    noting: NotingModel, is_unloading: bool
) -> None:
    """OpenVINO takes seconds to free some hundred, and what is not freed goes with the process."""
    async with AsyncExitStack() as stack, asyncio.timeout(LIMIT_S):
        engine = await stack.enter_async_context(an_engine(noting))
        model = await engine.load(SOURCE, ModelOptions("m", slots=1))
        noting.freeing.close()
        if is_unloading:
            engine.begin_unload(model, GONE)
            await asyncio.to_thread(noting.freeing.wait_held, 1)
        await stack.aclose()
    assert engine.stuck == 0
    assert engine.devices[0].freeing.under_way == ()
    await asyncio.to_thread(noting.freeing.wait_held, 1)
    noting.freeing.open()
    await noting.is_freed(1)
    assert get_ident() not in noting.freed_on


async def test_a_model_is_freed_on_the_loop_where_there_is_no_thread(noting: NotingModel) -> None:
    async with an_engine(noting) as engine:
        model = await engine.load(SOURCE, ModelOptions("m", slots=1))
        with no_new_threads(), capture_logs():
            await engine.unload(model, GONE)
        assert noting.freed_on == [get_ident()]


def test_openvinos_compiled_model_goes_before_the_last_of_its_requests(tmp_path: Path) -> None:
    """With a request it frees a model while other threads run Python, and with the compiled model it does not."""
    data = ops.parameter([-1, 4], np.float32, name="x")
    make: Any = ov.Model
    ov.save_model(make([ops.result(ops.relu(data))], [data], "m"), tmp_path / "m.xml")
    opened = open_model(OpenVinoBackend(), Source(tmp_path / "m.xml"), ModelOptions("m", slots=2))
    gone: list[str] = []

    def watch() -> None:
        slots = [slot for slot in opened.slots if isinstance(slot, OpenVinoSlot)]
        for slot in slots:
            finalize(slot._request, gone.append, "request")  # pyright: ignore[reportPrivateUsage]
        finalize(slots[0]._graph.compiled, gone.append, "compiled model")  # pyright: ignore[reportPrivateUsage]

    watch()
    opened.free()
    assert gone == ["request", "compiled model", "request"]
