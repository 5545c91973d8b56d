"""Inferences: run to their ends, cancelled, timed out and drained."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.service.echoing import ROW, a_model, an_inference
from tests.waiting import LIMIT_S

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Job, JobState
from inferwire_server.engine.brief_slot import TRIALS
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service.values import ServedModel

Serving = Callable[..., AbstractAsyncContextManager[Composition]]
Leap = Callable[[float], None]


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


@pytest.mark.parametrize(
    ("text", "named_s", "limit_s"),
    [
        ("", None, 900.0),
        ("time_limit_s = 400", None, 400.0),
        ("time_limit_s = 400", 2000.0, 2000.0),
        ("time_limit_s = 400", 100.0, 100.0),
    ],
)
async def test_a_job_without_a_time_limit_has_its_model_s_or_the_server_s(
    serving: Serving, leap: Leap, tmp_path: Path, text: str, named_s: float | None, limit_s: float
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/inferwire.toml").write_text(text)
    model = a_model(is_open=False)
    async with serving(model, time_limit_s=900.0) as server:
        call = asyncio.ensure_future(server.services.inference.infer(an_inference(timeout_s=named_s)))
        await asyncio.to_thread(model.gate.wait_held, 1)
        leap(limit_s - 50)
        await asyncio.sleep(0.01)
        assert not call.done()
        leap(100)
        job = await asyncio.wait_for(call, LIMIT_S)
        assert job.state is JobState.EXPIRED
        assert f"the time limit of {limit_s:g} s passed" in str(job.error)
        model.gate.open()


async def test_a_caller_that_goes_cancels_its_inference(serving: Serving) -> None:
    model = a_model(is_open=False)
    async with serving(model) as server:
        inference = server.services.inference
        call = asyncio.ensure_future(inference.infer(an_inference()))
        await asyncio.to_thread(model.gate.wait_held, 1)
        assert repr(inference) == "<InferenceService: open, 1 in flight>"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert repr(inference) == "<InferenceService: open, 0 in flight>"
        model.gate.open()
        assert (await inference.infer(an_inference())).state is JobState.FINISHED


@pytest.mark.parametrize("timeout_s", [-1.0, math.nan])
async def test_a_time_limit_that_is_no_time_is_refused(serving: Serving, timeout_s: float) -> None:
    async with serving(a_model()) as server:
        with pytest.raises(ServingError, match="seconds, expected 0 or more") as caught:
            await server.services.inference.infer(an_inference(timeout_s=timeout_s))
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


async def test_the_end_is_told_after_submit_has_returned(serving: Serving) -> None:
    async with serving(a_model()) as server:
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        job = server.services.inference.submit(an_inference(), end.set_result)
        assert not end.done()
        assert await end is job


async def test_brief_inferences_end_without_a_wait_and_everything_else_is_as_ever(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m"), is_brief=True)) as server:
        inference, jobs = server.services.inference, server.services.jobs
        for _ in range(TRIALS):
            await inference.infer(an_inference())
        with pytest.raises(StopIteration) as ended:
            inference.infer(an_inference()).send(None)
        assert ended.value.value.result() == (ROW,)
        name = jobs.start(an_inference())
        assert (await jobs.wait(name, 10.0)).result() == (ROW,)
        told: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        job = inference.submit(an_inference(), told.set_result)
        assert not told.done()
        assert await told is job
        assert repr(inference) == "<InferenceService: open, 0 in flight>"
        assert await inference.drain(0.0) == 0


async def test_draining_waits_for_what_runs_and_admits_nothing(serving: Serving) -> None:
    model = a_model(is_open=False)
    async with serving(model) as server:
        inference, jobs = server.services.inference, server.services.jobs
        (prepared,) = inference.prepare_stack(an_inference())
        job_id = jobs.start(an_inference())
        draining = asyncio.ensure_future(inference.drain(1000.0))
        await asyncio.to_thread(model.gate.wait_held, 1)
        assert repr(inference) == "<InferenceService: draining, 1 in flight>"
        for start in (lambda: jobs.start(an_inference()), lambda: inference.submit_prepared(prepared, print)):
            with pytest.raises(ServingError) as caught:
                start()
            assert caught.value.code is Code.SHUTTING_DOWN
        model.gate.open()
        assert await draining == 0
        assert jobs.result(job_id).state is JobState.FINISHED


async def test_draining_cancels_what_is_left_after_the_grace(serving: Serving, leap: Leap) -> None:
    model = a_model(is_open=False)
    async with serving(model) as server:
        inference, jobs = server.services.inference, server.services.jobs
        names = [jobs.start(an_inference()) for _ in range(3)]
        draining = asyncio.ensure_future(inference.drain(30.0))
        await asyncio.to_thread(model.gate.wait_held, 1)
        leap(30.0)
        assert await draining == 3
        ended = [jobs.result(name) for name in names]
        assert {job.state for job in ended} == {JobState.CANCELLED}
        # Their callers may send them to another server, which they would not with what they had cancelled.
        assert {job.error.code for job in ended if job.error} == {Code.SHUTTING_DOWN}
        assert repr(inference) == "<InferenceService: draining, 0 in flight>"


async def test_an_idle_server_is_drained_at_once(serving: Serving) -> None:
    async with serving(a_model()) as server:
        assert await server.services.inference.drain(1000.0) == 0
