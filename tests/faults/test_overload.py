"""More than fits, devices that never answer, and an end under load: each call is answered, none past its deadline."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import grpc
import pytest
from tests.faults.conftest import CAPACITY, SLOTS, WORK, Server, opened
from tests.faults.ways_in import OK, SAY_CODES, WAYS, v1_session_of_three
from tests.waiting import LIMIT_S, until

from inferwire_server.core.scheduling.job import JobState
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.engine.fake_backend import FakeModel, echo_spec


def a_connection(server: Server) -> grpc.aio.Channel:
    """Give a channel with a connection of its own: gRPC has one for all of a process."""
    return grpc.aio.insecure_channel(f"127.0.0.1:{server.rpc.port}", [("grpc.use_local_subchannel_pool", 1)])


@pytest.mark.parametrize("way", SAY_CODES)
async def test_a_full_queue_refuses_in_every_way_and_runs_what_it_took(
    server: Server, model: FakeModel, way: str
) -> None:
    model.gate.close()
    taken = [asyncio.create_task(server.call(WAYS["v1_infer"])) for _ in range(SLOTS + CAPACITY)]
    await server.comes_to(SLOTS, CAPACITY)
    assert [await server.call(SAY_CODES[way]) for _ in range(3)] == ["QUEUE_FULL"] * 3
    model.gate.open()
    assert await asyncio.gather(*taken) == [OK] * len(taken)
    await server.is_whole(refused=3, finished=len(taken))


async def test_of_a_flood_each_is_answered_or_refused(server: Server, model: FakeModel) -> None:
    model.gate.close()
    flood = [asyncio.create_task(server.call(way)) for _ in range(10) for way in SAY_CODES.values()]
    await until(lambda: server.outcomes()["refused"] == len(flood) - SLOTS - CAPACITY)
    model.gate.open()
    answers = Counter(await asyncio.gather(*flood))
    assert answers == {OK: SLOTS + CAPACITY, "QUEUE_FULL": len(flood) - SLOTS - CAPACITY}
    await server.is_whole(finished=answers[OK], refused=answers["QUEUE_FULL"])


@pytest.mark.parametrize(
    ("flood", "way"),
    [
        *((flood, way) for flood in ("oip_infer", "v1_session_of_three") for way in WAYS),
        *(("rest_infer", way) for way in WAYS if "rest" not in way),
    ],
)
async def test_a_lone_caller_is_not_behind_all_that_another_has_waiting(tmp_path: Path, flood: str, way: str) -> None:
    model = FakeModel(echo_spec("echo"), optimal_slots=1)
    async with opened(tmp_path, model) as server, a_connection(server) as channel:
        model.gate.close()
        if flood == "v1_session_of_three":
            flooding = [asyncio.create_task(server.call(v1_session_of_three))]
        else:
            flooding = [asyncio.create_task(server.call(WAYS[flood])) for _ in range(3)]
        await until(lambda: server.device.occupancy == Occupancy(1, 1, 2))
        lone = asyncio.ensure_future(WAYS[way](channel, server.http, 0))
        await until(lambda: server.device.occupancy == Occupancy(1, 1, 3))
        for _ in range(3):
            # The one that runs, the one whose turn it was before, and the lone caller's.
            await asyncio.to_thread(model.gate.let_through, 1)
            await asyncio.to_thread(int)
        async with asyncio.timeout(LIMIT_S):
            assert await lone == OK
        await until(lambda: server.device.occupancy == Occupancy(1, 1, 0))
        model.gate.open()
        assert await asyncio.gather(*flooding) == [OK] * len(flooding)


@pytest.mark.parametrize("way", SAY_CODES)
async def test_a_device_that_never_answers_keeps_nobody_past_the_deadline(
    server: Server, model: FakeModel, way: str
) -> None:
    model.can_cancel = False
    model.gate.close()
    calls = [server.call(SAY_CODES[way], timeout_us=1000) for _ in range(SLOTS + 2)]
    assert await asyncio.gather(*calls) == ["DEADLINE_EXCEEDED"] * len(calls)
    # What the device does not give back is not free, and nobody waits for it.
    assert server.device.occupancy.queued == 0
    model.gate.open()
    await server.is_whole(expired=len(calls))


async def test_deadlines_that_have_passed_as_they_come_are_answered(server: Server, model: FakeModel) -> None:
    model.gate.close()
    jobs = server.composition.services.jobs
    hurried = WORK._replace(wanted=WORK.wanted._replace(timeout_s=0.0))
    late = [jobs.start(work) for work in (hurried, hurried, hurried)]
    patient = jobs.start(WORK)
    assert {(await jobs.wait(job_id, LIMIT_S)).state for job_id in late} == {JobState.EXPIRED}
    model.gate.open()
    assert (await jobs.wait(patient, LIMIT_S)).state is JobState.FINISHED
    await server.is_whole(expired=3, finished=1)


@pytest.mark.parametrize("grace_s", [0.0, LIMIT_S], ids=["no grace", "a long grace"])
async def test_an_end_under_load_answers_everybody(server: Server, model: FakeModel, grace_s: float) -> None:
    model.gate.close()
    under_way = [asyncio.create_task(server.call(way)) for way in SAY_CODES.values()]
    await server.comes_to(SLOTS, CAPACITY)
    services = server.composition.services
    services.health.end()
    ending = asyncio.gather(
        services.inference.drain(grace_s), server.rpc.drain(grace_s + 1), server.rest.drain(grace_s + 1)
    )
    await until(lambda: "draining" in repr(services.inference))
    if grace_s:
        model.gate.open()
    async with asyncio.timeout(LIMIT_S):
        cancelled, *_ = await ending
    answers = await asyncio.gather(*under_way, return_exceptions=True)
    await server.comes_to(0, 0)
    if grace_s:
        # Whoever had started a job can be turned away as they come for the result; the others have theirs.
        assert [answers[index] for index, name in enumerate(SAY_CODES) if "job" not in name] == [OK] * 4
        assert cancelled == 0
        server.adds_up(finished=len(under_way))
    else:
        assert OK not in answers
        assert cancelled == len(under_way)
        server.adds_up(cancelled=len(under_way))
