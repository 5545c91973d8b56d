"""Bad inputs between good ones: no slot, no job and no count is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import until

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import JobState
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service.values import (
    Inference,
    Region,
    ServedModel,
    SharedPlace,
    SharedTensor,
    StoredTensor,
    UploadedModel,
    Wanted,
)

Serving = Callable[..., AbstractAsyncContextManager[Composition]]

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))
POISON = Tensor(BY_NAME["f32"], (1, 4), b"poison".ljust(16))

REFUSED: list[tuple[dict[str, Any], Code]] = [
    ({"target": ServedModel("x")}, Code.MODEL_NOT_FOUND),
    ({"target": ServedModel("m", "2")}, Code.MODEL_NOT_FOUND),
    ({"target": ServedModel("m", "two")}, Code.INVALID_INPUT),
    ({"target": UploadedModel("x", None)}, Code.MODEL_NOT_FOUND),
    ({"inputs": ()}, Code.INVALID_INPUT),
    ({"inputs": (("x", ROW), (0, ROW))}, Code.INVALID_INPUT),
    ({"inputs": (("z", ROW),)}, Code.INVALID_INPUT),
    ({"inputs": (("x", Tensor(BY_NAME["f64"], (1, 4), bytes(32))),)}, Code.INVALID_INPUT),
    ({"inputs": (("x", Tensor(BY_NAME["f32"], (1, 5), bytes(20))),)}, Code.INVALID_INPUT),
    ({"inputs": (("x", Tensor(BY_NAME["f32"], (4,), bytes(16))),)}, Code.INVALID_INPUT),
    ({"inputs": (("x", Tensor(BY_NAME["f32"], (1, 4), bytes(15))),)}, Code.INVALID_INPUT),
    ({"outputs": ("z",)}, Code.INVALID_INPUT),
    ({"outputs": ("y", "y")}, Code.INVALID_INPUT),
    ({"signature": 1}, Code.INVALID_INPUT),
    ({"timeout_s": -1.0}, Code.INVALID_INPUT),
]

ENDED: list[tuple[dict[str, Any], JobState]] = [
    ({}, JobState.FINISHED),
    ({"inputs": (("x", POISON),)}, JobState.FAILED),
    ({"timeout_s": 0.0}, JobState.EXPIRED),
]


def outcomes(server: Composition) -> dict[str, int]:
    families = text_string_to_metric_families(server.metrics.scrape().text().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == "inferwire_jobs_total"]
    return {sample.labels["outcome"]: int(sample.value) for sample in samples if sample.value}


def choke(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    if any(tensor == POISON for tensor in inputs):
        raise ServingError(Code.INFERENCE_FAILED, "poison")
    return tuple(inputs)


def an_inference(changes: dict[str, Any]) -> Inference:
    wanted: dict[str, Any] = {"target": ServedModel("m"), **changes}
    inputs = wanted.pop("inputs", (("x", ROW),))
    return Inference(Wanted(**wanted), inputs)


async def test_bad_inputs_between_good_ones_lose_nothing(serving: Serving) -> None:
    model = FakeModel(echo_spec("m"), compute=choke, optimal_slots=1)
    async with serving(model, queue_capacity=1) as server:
        inference, submitted = server.services.inference, dict.fromkeys([state.value for state in JobState], 0)
        device = server.services.models.resolve(ServedModel("m")).device

        async def good_one() -> None:
            job = await inference.infer(an_inference({}))
            submitted[job.state.value] += 1
            assert job.result() == (ROW,)
            assert device.occupancy == Occupancy(running=0, slots=1, queued=0)
            assert repr(inference) == "<InferenceService: open, 0 in flight>"
            assert outcomes(server) == {name: count for name, count in submitted.items() if count}

        for changes, code in REFUSED:
            with pytest.raises(ServingError) as caught:
                await inference.infer(an_inference(changes))
            assert caught.value.code is code
            await good_one()
        for changes, state in ENDED:
            model.gate.close() if state is JobState.EXPIRED else model.gate.open()
            job = await inference.infer(an_inference(changes))
            assert job.state is state
            submitted[state.value] += 1
            model.gate.open()
            await good_one()


async def test_only_inputs_that_came_with_their_call_count_as_waiting_memory(serving: Serving) -> None:
    model = FakeModel(echo_spec("m"), optimal_slots=1)
    row = Tensor(BY_NAME["f32"], (1 << 16, 4), bytes(1 << 20))
    async with serving(model, slots=1, max_queued_mb=1) as server:
        jobs, session = server.services.jobs, server.services.sessions.attach("", "a test")
        kept = StoredTensor(session, 1)
        server.services.tensors.create(kept, row.element_type, row.shape)
        model.gate.close()
        started = [jobs.start(an_inference({"inputs": (("x", given),)})) for given in (row, row, kept, kept, kept)]
        with pytest.raises(ServingError, match="the inputs of waiting jobs take 1 MiB, at most 1 may be taken"):
            jobs.start(an_inference({}))
        model.gate.open()
        for job in started:
            assert (await jobs.wait(job, 10.0)).state is JobState.FINISHED


async def test_strings_in_shared_memory_count_as_waiting_memory_as_their_jobs_have_copies(serving: Serving) -> None:
    spec = echo_spec("m")
    port = replace(spec.inputs[0], element_type=BY_NAME["string"])
    model, key = FakeModel(replace(spec, inputs=(port,)), optimal_slots=1), f"inferwire-test-{token_hex(8)}"
    segment = Path("/dev/shm") / key
    segment.write_bytes(bytes(1 << 20))
    try:
        async with serving(model, shared_memory=("inferwire-test-",), max_queued_mb=1) as server:
            await server.services.shared_memory.register(Region("r", key, 0, 1 << 20))
            given = SharedTensor(port.element_type, (1 << 16, 4), SharedPlace("r", 0, 1 << 20))
            call, submit = an_inference({"inputs": (("x", given),)}), server.services.inference.submit
            model.gate.close()
            jobs = [submit(call, lambda _: None) for _ in range(2)]
            with pytest.raises(ServingError, match="the inputs of waiting jobs take 1 MiB, at most 1 may be taken"):
                submit(call, lambda _: None)
            for job in jobs:
                server.services.inference.cancel(job, "by the test")
            model.gate.open()
    finally:
        segment.unlink()


async def test_refused_and_cancelled_jobs_are_counted_as_such(serving: Serving) -> None:
    model = FakeModel(echo_spec("m"), optimal_slots=2)
    async with serving(model, queue_capacity=1) as server:
        jobs = server.services.jobs
        model.gate.close()
        started = [jobs.start(an_inference({})) for _ in range(3)]
        for _ in range(4):
            with pytest.raises(ServingError, match="CPU's queue is full"):
                jobs.start(an_inference({}))
        jobs.cancel(started[0])
        jobs.cancel(started[2])
        model.gate.open()
        await jobs.wait(started[1], 1000.0)
        assert outcomes(server) == {"refused": 4, "cancelled": 2, "finished": 1}
        device = server.services.models.resolve(ServedModel("m")).device
        await until(lambda: not device.occupancy.running)
        model.gate.close()
        again = [jobs.start(an_inference({})) for _ in range(2)]
        await asyncio.to_thread(model.gate.wait_held, 2)
        assert device.occupancy == Occupancy(2, 2, 0)
        model.gate.open()
        for job_id in again:
            assert (await jobs.wait(job_id, 1000.0)).state is JobState.FINISHED
