"""Statistics of served models: what ran, in how many rows, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import time

import pytest
from tests.service.conftest import ComposeFakes

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.scheduling.tally import Durations
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service.values import Inference, ServedModel, Wanted

Leap = Callable[[float], None]


def rows(count: int, *, poisoned: bool = False) -> Inference:
    data = (b"bad!" if poisoned else bytes(4)) * 4 * count
    return Inference(Wanted(ServedModel("m")), (("x", Tensor(BY_NAME["f32"], (count, 4), data)),))


def choke(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    if b"bad!" in bytes(inputs[0].data):
        raise ServingError(Code.INFERENCE_FAILED, "poisoned")
    return tuple(inputs)


async def run(server: Composition, *inferences: Inference) -> None:
    await asyncio.gather(*(server.services.inference.infer(inference) for inference in inferences))


def submit(server: Composition, inference: Inference) -> asyncio.Future[Job]:
    end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
    server.services.inference.submit(inference, end.set_result)
    return end


async def test_before_the_first_inference_all_is_zero(serving: ComposeFakes) -> None:
    async with serving(FakeModel(echo_spec("b")), FakeModel(echo_spec("a")), broken=("broken",)) as server:
        found = server.services.statistics.read()
        assert [(model.name, model.version, model.last_s) for model in found] == [("a", "1", None), ("b", "1", None)]
        unused = found[0]
        assert [unused.success, unused.fail, unused.queue, unused.compute] == [Durations()] * 4
        assert unused.runs == {}
        assert server.services.statistics.read("b") == server.services.statistics.read("b", "1") == found[1:]
        assert server.services.statistics.read("broken") == server.services.statistics.read("nobody") == []
        with pytest.raises(ServingError, match="version 9 is not found"):
            server.services.statistics.read("a", "9")


async def test_the_time_of_a_job_is_its_wait_and_its_run(serving: ComposeFakes, leap: Leap) -> None:
    model = FakeModel(echo_spec("m"), choke, Gate(is_open=False), optimal_slots=1)
    async with serving(model) as server:
        began = time()
        jobs = [submit(server, rows(2)) for _ in range(2)]
        await asyncio.to_thread(model.gate.wait_held, 1)
        leap(100.0)
        model.gate.open()
        await asyncio.gather(*jobs)
        await run(server, rows(1, poisoned=True))
        (found,) = server.services.statistics.read("m")
        assert (found.success.count, found.fail.count, found.queue.count, found.compute.count) == (2, 1, 3, 2)
        assert 200.0 <= found.success.seconds < 260.0
        assert 100.0 <= found.queue.seconds < 130.0
        assert 100.0 <= found.compute.seconds < 130.0
        assert found.fail.seconds < 30.0
        # Without batching a request is one inference, whatever its shape.
        assert {size: runs.count for size, runs in found.runs.items()} == {1: 2}
        assert found.last_s is not None
        assert began - 1.0 <= found.last_s <= time() + 1.0


async def test_batches_are_counted_by_their_rows(serving: ComposeFakes) -> None:
    model = FakeModel(echo_spec("m"), choke, optimal_slots=1)
    async with serving(model, properties=("INFERWIRE_MAX_BATCH=4",)) as server:
        await run(server, rows(1))
        model.gate.close()
        jobs = [submit(server, rows(1))]
        await asyncio.to_thread(model.gate.wait_held, 1)
        jobs += [submit(server, rows(count)) for count in (1, 2, 9)]
        model.gate.open()
        await asyncio.gather(*jobs)
        (found,) = server.services.statistics.read("m")
        # The nine rows are more than a batch, and count as one that is full.
        assert {size: runs.count for size, runs in found.runs.items()} == {1: 2, 3: 1, 4: 1}
        assert found.success.count == 5


async def test_a_refused_job_has_failed_and_a_reload_forgets_nothing(serving: ComposeFakes) -> None:
    model = FakeModel(echo_spec("m"), choke, optimal_slots=1)
    async with serving(model, queue_capacity=1, allow_model_control=True) as server:
        await run(server, rows(1))
        await server.services.models.load("m")
        model.gate.close()
        jobs = [submit(server, rows(1)) for _ in range(2)]
        await asyncio.to_thread(model.gate.wait_held, 1)
        with pytest.raises(ServingError, match="queue is full"):
            submit(server, rows(1))
        model.gate.open()
        await asyncio.gather(*jobs)
        (found,) = server.services.statistics.read("m")
        assert (found.success.count, found.fail.count) == (3, 1)


async def test_what_ran_before_a_reload_on_another_device_is_counted_though_nothing_has_run_there(
    serving: ComposeFakes,
) -> None:
    model = FakeModel(echo_spec("m"))
    async with serving(model, allow_model_control=True) as server:
        await run(server, rows(1))
        model.devices = ("GPU",)
        await server.services.models.load("m")
        assert [device.name for device in server.engine.devices] == ["CPU", "GPU"]
        (found,) = server.services.statistics.read("m")
        assert found.success.count == 1
        assert found.last_s is not None
