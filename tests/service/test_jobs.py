"""Named jobs: waited for, collected, cancelled, kept for a while and forgotten."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.service.conftest import LeapingLoop
from tests.service.echoing import ROW, a_model, an_inference

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.callers import at_host
from inferwire_server.core.scheduling.job import JobState
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition

Serving = Callable[..., AbstractAsyncContextManager[Composition]]
Leap = Callable[[float], None]


async def test_a_named_job_is_waited_for_and_its_result_kept_until_released(serving: Serving) -> None:
    model = a_model(is_open=False)
    async with serving(model) as server:
        jobs = server.services.jobs
        job_id = jobs.start(an_inference())
        assert (await jobs.wait(job_id, 0.0)).state is JobState.RUNNING
        assert (await jobs.wait(job_id, 0.001)).state is JobState.RUNNING
        assert repr(jobs) == "<JobService: 1 named jobs, 0 of them ended>"
        with pytest.raises(ServingError) as caught:
            jobs.result(job_id)
        assert caught.value.message == f"job '{job_id}' is running, expected one that has ended: wait for it"
        model.gate.open()
        assert (await jobs.wait(job_id, math.inf)).state is JobState.FINISHED
        assert repr(jobs) == "<JobService: 1 named jobs, 1 of them ended>"
        assert jobs.result(job_id).result() == (ROW,)
        assert jobs.result(job_id).result() == (ROW,)
        jobs.release(job_id)
        await is_forgotten(server, job_id)


async def test_a_named_job_has_its_turn_among_its_callers_others(serving: Serving) -> None:
    async with serving(a_model()) as server:
        jobs = server.services.jobs
        job = await jobs.wait(jobs.start(an_inference(), at_host("a")), math.inf)
        assert job.caller == at_host("a")


async def is_forgotten(server: Composition, job_id: str) -> None:
    jobs = server.services.jobs
    for call in (jobs.result, jobs.cancel):
        with pytest.raises(ServingError) as caught:
            call(job_id)
        assert caught.value.code is Code.JOB_NOT_FOUND
    with pytest.raises(ServingError, match="is not known"):
        await jobs.wait(job_id, 1.0)


async def test_a_named_job_is_cancelled_by_its_name(serving: Serving) -> None:
    async with serving(a_model(is_open=False)) as server:
        jobs = server.services.jobs
        running, queued = jobs.start(an_inference()), jobs.start(an_inference())
        for job_id in (queued, running):
            assert jobs.cancel(job_id).state is JobState.CANCELLED
            assert (await jobs.wait(job_id, 10.0)).state is JobState.CANCELLED
            with pytest.raises(ServingError, match="the job was cancelled"):
                jobs.result(job_id).result()
        assert jobs.cancel(queued).state is JobState.CANCELLED


async def test_an_ended_job_is_kept_for_its_time_and_then_forgotten(serving: Serving, leap: Leap) -> None:
    async with serving(a_model(), keep_jobs_s=60.0) as server:
        jobs = server.services.jobs
        job_id = jobs.start(an_inference())
        await jobs.wait(job_id, math.inf)
        leap(59.0)
        await asyncio.to_thread(int)
        assert jobs.result(job_id).state is JobState.FINISHED
        leap(1.0)
        await asyncio.to_thread(int)
        await is_forgotten(server, job_id)


async def test_one_timer_is_set_for_however_many_jobs_are_kept(serving: Serving, leap: Leap) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    async with serving(a_model(), keep_jobs_s=3600.0) as server:
        jobs, names = server.services.jobs, list[str]()
        before = loop.timers_after(1000.0)
        for each in range(20):
            names.append(jobs.start(an_inference()))
            await jobs.wait(names[-1], math.inf)
            if each < 10:
                jobs.release(names[-1])
        assert loop.timers_after(1000.0) == before + 1
        leap(1800.0)
        late = jobs.start(an_inference())
        await jobs.wait(late, math.inf)
        leap(1800.0)
        await asyncio.to_thread(int)
        assert "inferwire_kept_jobs 1.0" in server.metrics.scrape().text().decode()
        assert jobs.result(late).state is JobState.FINISHED
        leap(1800.0)
        await asyncio.to_thread(int)
        await is_forgotten(server, late)
        assert loop.timers_after(1000.0) == before


async def test_results_beyond_what_is_kept_make_the_oldest_go(serving: Serving) -> None:
    large = Tensor(BY_NAME["f32"], (1 << 15, 4), bytes(1 << 19))
    async with serving(FakeModel(echo_spec("m")), max_kept_results_mb=1) as server:
        jobs = server.services.jobs
        names: list[str] = []
        for tensor in (ROW, large, ROW, large, ROW):
            names.append(jobs.start(an_inference(inputs=(("x", tensor),))))
            await jobs.wait(names[-1], 10.0)
        for forgotten in names[:2]:
            await is_forgotten(server, forgotten)
        assert [len(jobs.result(name).result()) for name in names[2:]] == [1, 1, 1]
        kept = (1 << 19) + 2 * ROW.byte_size + 3 * 4096
        said = server.metrics.scrape().text().decode()
        assert "inferwire_kept_jobs 3.0" in said
        assert f"inferwire_kept_result_bytes {kept}.0" in said
        assert "inferwire_kept_result_bytes_limit 1.048576e+06" in said


async def test_small_results_count_as_well(serving: Serving) -> None:
    async with serving(a_model(), max_kept_results_mb=1) as server:
        jobs = server.services.jobs
        names = [jobs.start(an_inference()) for _ in range(2)]
        for _ in range(260):
            await jobs.wait(names[-1], 10.0)
            names.append(jobs.start(an_inference()))
        assert "inferwire_kept_jobs 25" in server.metrics.scrape().text().decode()
        await is_forgotten(server, names[0])


async def test_an_ended_job_keeps_none_of_what_ran_with_it(serving: Serving) -> None:
    model = a_model()
    async with serving(model, properties=("INFERWIRE_MAX_BATCH=8",)) as server:
        inference, jobs = server.services.inference, server.services.jobs
        model.gate.close()
        first = jobs.start(an_inference())
        await asyncio.to_thread(model.gate.wait_held, 1)
        named, other = jobs.start(an_inference()), asyncio.ensure_future(inference.infer(an_inference()))
        await asyncio.to_thread(int)
        model.gate.open()
        (batched,) = (await other).result()
        (kept,) = (await jobs.wait(named, math.inf)).result()
        held = [memoryview(memoryview(output.data).obj).nbytes for output in (batched, kept)]
        assert held == [2 * ROW.byte_size, ROW.byte_size]
        assert (await jobs.wait(first, math.inf)).state is JobState.FINISHED


async def test_a_running_job_is_not_forgotten(serving: Serving, leap: Leap) -> None:
    async with serving(a_model(is_open=False), keep_jobs_s=1.0) as server:
        job_id = server.services.jobs.start(an_inference())
        leap(1000.0)
        await asyncio.to_thread(int)
        assert (await server.services.jobs.wait(job_id, 0.0)).state is JobState.RUNNING
