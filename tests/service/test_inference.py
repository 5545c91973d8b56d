"""Inferences: at once, or as jobs with a name; cancelled, timed out, kept and drained."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.service.conftest import LeapingLoop

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.job import Job, JobState
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.engine.quick_slot import TRIALS
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service.values import Inference, ServedModel

Serving = Callable[..., AbstractAsyncContextManager[Composition]]
Leap = Callable[[float], None]

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))


def a_model(*, is_open: bool = True) -> FakeModel:
    return FakeModel(echo_spec("m"), gate=Gate(is_open=is_open), optimal_slots=1)


def an_inference(**changes: Any) -> Inference:
    fields: dict[str, Any] = {"target": ServedModel("m"), "inputs": (("x", ROW),)}
    return Inference(**(fields | changes))


async def test_an_inference_ends_with_its_outputs(serving: Serving) -> None:
    async with serving(a_model()) as server:
        job = await server.services.inference.infer(an_inference())
        assert job.result() == (ROW,)
        assert server.services.models.of(job).name == "m"


async def test_a_job_without_a_priority_has_its_model_s(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/inferwire.toml").write_text("priority = 3")
    async with serving(a_model()) as server:
        inference = server.services.inference
        jobs = [await inference.infer(an_inference(priority=priority)) for priority in (0, -1, 7)]
        assert [job.priority for job in jobs] == [3, -1, 7]


async def test_a_caller_that_goes_cancels_its_inference(serving: Serving) -> None:
    model = a_model(is_open=False)
    async with serving(model) as server:
        inference = server.services.inference
        call = asyncio.ensure_future(inference.infer(an_inference()))
        await asyncio.to_thread(model.gate.wait_held, 1)
        assert repr(inference) == "<InferenceService: open, 1 in flight, 0 named jobs>"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert repr(inference) == "<InferenceService: open, 0 in flight, 0 named jobs>"
        model.gate.open()
        assert (await inference.infer(an_inference())).state is JobState.FINISHED


@pytest.mark.parametrize("timeout_s", [-1.0, math.nan])
async def test_a_time_limit_that_is_no_time_is_refused(serving: Serving, timeout_s: float) -> None:
    async with serving(a_model()) as server:
        with pytest.raises(ServingError, match="seconds, expected 0 or more") as caught:
            server.services.inference.start(an_inference(timeout_s=timeout_s))
        assert caught.value.code is Code.INVALID_INPUT


async def test_an_inference_out_of_time_has_expired(serving: Serving) -> None:
    async with serving(a_model(is_open=False)) as server:
        job = await server.services.inference.infer(an_inference(timeout_s=0.0))
        assert job.state is JobState.EXPIRED


async def test_a_caller_that_knows_other_ports_is_refused(serving: Serving) -> None:
    async with serving(a_model()) as server:
        signature = server.services.models.resolve(ServedModel("m")).spec.signature
        assert (await server.services.inference.infer(an_inference(signature=signature))).state is JobState.FINISHED
        with pytest.raises(ServingError, match="model 'm' was reloaded with other inputs or outputs") as caught:
            await server.services.inference.infer(an_inference(signature=signature + 1))
        assert caught.value.code is Code.INVALID_INPUT


async def test_a_named_job_is_waited_for_and_its_result_kept_until_released(serving: Serving) -> None:
    model = a_model(is_open=False)
    async with serving(model) as server:
        inference = server.services.inference
        job_id = inference.start(an_inference())
        assert (await inference.wait(job_id, 0.0)).state is JobState.RUNNING
        assert (await inference.wait(job_id, 0.001)).state is JobState.RUNNING
        with pytest.raises(ServingError) as caught:
            inference.result(job_id)
        assert caught.value.message == f"job '{job_id}' is running, expected one that has ended: wait for it"
        model.gate.open()
        assert (await inference.wait(job_id, math.inf)).state is JobState.FINISHED
        assert inference.result(job_id).result() == (ROW,)
        assert inference.result(job_id).result() == (ROW,)
        inference.release(job_id)
        await is_forgotten(server, job_id)


async def is_forgotten(server: Composition, job_id: str) -> None:
    inference = server.services.inference
    for call in (inference.result, inference.cancel_named):
        with pytest.raises(ServingError) as caught:
            call(job_id)
        assert caught.value.code is Code.JOB_NOT_FOUND
    with pytest.raises(ServingError, match="is not known"):
        await inference.wait(job_id, 1.0)


async def test_a_named_job_is_cancelled_by_its_name(serving: Serving) -> None:
    async with serving(a_model(is_open=False)) as server:
        inference = server.services.inference
        running, queued = inference.start(an_inference()), inference.start(an_inference())
        for job_id in (queued, running):
            assert inference.cancel_named(job_id).state is JobState.CANCELLED
            assert (await inference.wait(job_id, 10.0)).state is JobState.CANCELLED
            with pytest.raises(ServingError, match="the job was cancelled"):
                inference.result(job_id).result()
        assert inference.cancel_named(queued).state is JobState.CANCELLED


async def test_an_ended_job_is_kept_for_its_time_and_then_forgotten(serving: Serving, leap: Leap) -> None:
    async with serving(a_model(), keep_jobs_s=60.0) as server:
        inference = server.services.inference
        job_id = inference.start(an_inference())
        await inference.wait(job_id, math.inf)
        leap(59.0)
        await asyncio.to_thread(int)
        assert inference.result(job_id).state is JobState.FINISHED
        leap(1.0)
        await asyncio.to_thread(int)
        await is_forgotten(server, job_id)


async def test_one_timer_is_set_for_however_many_jobs_are_kept(serving: Serving, leap: Leap) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    async with serving(a_model(), keep_jobs_s=3600.0) as server:
        inference, names = server.services.inference, list[str]()
        before = loop.timers_after(1000.0)
        for each in range(20):
            names.append(inference.start(an_inference()))
            await inference.wait(names[-1], math.inf)
            if each < 10:
                inference.release(names[-1])
        assert loop.timers_after(1000.0) == before + 1
        leap(1800.0)
        late = inference.start(an_inference())
        await inference.wait(late, math.inf)
        leap(1800.0)
        await asyncio.to_thread(int)
        assert "inferwire_kept_jobs 1.0" in server.metrics.text().decode()
        assert inference.result(late).state is JobState.FINISHED
        leap(1800.0)
        await asyncio.to_thread(int)
        await is_forgotten(server, late)
        assert loop.timers_after(1000.0) == before


async def test_results_beyond_what_is_kept_make_the_oldest_go(serving: Serving) -> None:
    large = Tensor(BY_NAME["f32"], (1 << 15, 4), bytes(1 << 19))
    async with serving(FakeModel(echo_spec("m")), max_kept_results_mb=1) as server:
        inference = server.services.inference
        names: list[str] = []
        for tensor in (ROW, large, ROW, large, ROW):
            names.append(inference.start(an_inference(inputs=(("x", tensor),))))
            await inference.wait(names[-1], 10.0)
        for forgotten in names[:2]:
            await is_forgotten(server, forgotten)
        assert [len(inference.result(name).result()) for name in names[2:]] == [1, 1, 1]
        kept = (1 << 19) + 2 * ROW.byte_size + 3 * 4096
        said = server.metrics.text().decode()
        assert "inferwire_kept_jobs 3.0" in said
        assert f"inferwire_kept_result_bytes {kept}.0" in said


async def test_small_results_count_as_well(serving: Serving) -> None:
    async with serving(a_model(), max_kept_results_mb=1) as server:
        inference = server.services.inference
        names = [inference.start(an_inference()) for _ in range(2)]
        for _ in range(260):
            await inference.wait(names[-1], 10.0)
            names.append(inference.start(an_inference()))
        assert "inferwire_kept_jobs 25" in server.metrics.text().decode()
        await is_forgotten(server, names[0])


async def test_an_ended_job_keeps_none_of_what_ran_with_it(serving: Serving) -> None:
    model = a_model()
    async with serving(model, properties=("INFERWIRE_MAX_BATCH=8",)) as server:
        inference = server.services.inference
        model.gate.close()
        first = inference.start(an_inference())
        await asyncio.to_thread(model.gate.wait_held, 1)
        named, other = inference.start(an_inference()), asyncio.ensure_future(inference.infer(an_inference()))
        await asyncio.to_thread(int)
        model.gate.open()
        (batched,) = (await other).result()
        (kept,) = (await inference.wait(named, math.inf)).result()
        held = [memoryview(memoryview(output.data).obj).nbytes for output in (batched, kept)]
        assert held == [2 * ROW.byte_size, ROW.byte_size]
        assert (await inference.wait(first, math.inf)).state is JobState.FINISHED


async def test_a_running_job_is_not_forgotten(serving: Serving, leap: Leap) -> None:
    async with serving(a_model(is_open=False), keep_jobs_s=1.0) as server:
        job_id = server.services.inference.start(an_inference())
        leap(1000.0)
        await asyncio.to_thread(int)
        assert (await server.services.inference.wait(job_id, 0.0)).state is JobState.RUNNING


async def test_the_end_is_told_after_submit_has_returned(serving: Serving) -> None:
    async with serving(a_model()) as server:
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        job = server.services.inference.submit(an_inference(), end.set_result)
        assert not end.done()
        assert await end is job


async def test_brief_inferences_end_without_a_wait_and_everything_else_is_as_ever(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m"), is_quick=True)) as server:
        inference = server.services.inference
        for _ in range(TRIALS):
            await inference.infer(an_inference())
        with pytest.raises(StopIteration) as ended:
            inference.infer(an_inference()).send(None)
        assert ended.value.value.result() == (ROW,)
        name = inference.start(an_inference())
        assert (await inference.wait(name, 10.0)).result() == (ROW,)
        told: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        job = inference.submit(an_inference(), told.set_result)
        assert not told.done()
        assert await told is job
        assert repr(inference) == "<InferenceService: open, 0 in flight, 1 named jobs>"
        assert await inference.drain(0.0) == 0


async def test_draining_waits_for_what_runs_and_admits_nothing(serving: Serving) -> None:
    model = a_model(is_open=False)
    async with serving(model) as server:
        inference = server.services.inference
        job_id = inference.start(an_inference())
        draining = asyncio.ensure_future(inference.drain(1000.0))
        await asyncio.to_thread(model.gate.wait_held, 1)
        assert inference.is_draining
        with pytest.raises(ServingError) as caught:
            inference.start(an_inference())
        assert caught.value.code is Code.SHUTTING_DOWN
        model.gate.open()
        assert await draining == 0
        assert inference.result(job_id).state is JobState.FINISHED


async def test_draining_cancels_what_is_left_after_the_grace(serving: Serving, leap: Leap) -> None:
    model = a_model(is_open=False)
    async with serving(model) as server:
        inference = server.services.inference
        jobs = [inference.start(an_inference()) for _ in range(3)]
        draining = asyncio.ensure_future(inference.drain(30.0))
        await asyncio.to_thread(model.gate.wait_held, 1)
        leap(30.0)
        assert await draining == 3
        ended = [inference.result(job_id) for job_id in jobs]
        assert {job.state for job in ended} == {JobState.CANCELLED}
        # Their callers may send them to another server, which they would not with what they had cancelled.
        assert {job.error.code for job in ended if job.error} == {Code.SHUTTING_DOWN}
        assert repr(inference) == "<InferenceService: draining, 0 in flight, 3 named jobs>"


async def test_an_idle_server_is_drained_at_once(serving: Serving) -> None:
    async with serving(a_model()) as server:
        assert await server.services.inference.drain(1000.0) == 0
