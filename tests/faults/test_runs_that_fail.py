"""What runs an inference raises, or a device is lost for a while: each caller is told, and no slot is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.faults.conftest import SLOTS, Server
from tests.faults.ways_in import OK, SAY_CODES, WAYS

from inferwire_proto.errors import Code
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, echo
from inferwire_server.errors import ServingError

LOST = ServingError(Code.INFERENCE_FAILED, "the device is lost")


@pytest.mark.parametrize(
    "raised", [RuntimeError("no"), SystemExit(1), KeyboardInterrupt(), AssertionError("a bug")], ids=repr
)
async def test_whatever_a_slot_raises_fails_its_job_and_the_slot_goes_on(
    server: Server, model: FakeModel, raised: BaseException
) -> None:
    def burst(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        raise raised

    model.compute = burst
    with capture_logs() as logged:
        for way in SAY_CODES.values():
            assert await server.call(way) == "INTERNAL"
        told = await server.call(WAYS["oip_stream"])
    assert [entry["exc_info"] for entry in logged if entry["event"] == "bug in a slot"] == [raised] * len(WAYS)
    assert told == f"a bug in the server; its log has more under id {logged[-1]['id']}"
    model.compute = echo
    await server.is_whole(failed=len(WAYS))


async def test_a_run_without_enough_memory_is_said_to_be_one_and_the_slot_goes_on(
    server: Server, model: FakeModel
) -> None:
    def burst(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        raise MemoryError

    model.compute = burst
    with capture_logs() as logged:
        for way in SAY_CODES.values():
            assert await server.call(way) == "TOO_LARGE"
        told = await server.call(WAYS["oip_stream"])
    (entry,) = [entry for entry in logged if entry["log_level"] == "error"][-1:]
    assert entry["event"] == "out of memory in a slot"
    assert told == f"the server is out of memory for this request; its log has more under id {entry['id']}"
    model.compute = echo
    await server.is_whole(failed=len(WAYS))


async def test_a_lost_device_fails_what_it_is_given_until_it_is_there_again(server: Server, model: FakeModel) -> None:
    is_lost = asyncio.Event()

    def compute(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if is_lost.is_set():
            raise LOST
        return tuple(inputs)

    model.compute = compute
    model.gate.close()
    under_way = [asyncio.create_task(server.call(way)) for way in list(SAY_CODES.values())[:5]]
    await server.comes_to(running=SLOTS, queued=3)
    is_lost.set()
    model.gate.open()
    assert await asyncio.gather(*under_way) == ["INFERENCE_FAILED"] * 5
    for way in SAY_CODES.values():
        assert await server.call(way) == "INFERENCE_FAILED"
    is_lost.clear()
    await server.is_whole(failed=5 + len(SAY_CODES))


async def test_a_model_that_cannot_be_loaded_anew_on_a_lost_device_is_served_as_it_was(
    server: Server, model: FakeModel, tmp_path: Path
) -> None:
    def compute(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        raise LOST

    (tmp_path / "echo" / "inferwire.toml").write_text("[warm_up]\nx = [1, 4]\n")
    model.compute = compute
    answer = await server.http.post("/v2/repository/models/echo/load")
    assert "it does not warm up: the device is lost" in answer.json()["error"]
    model.compute = echo
    await server.is_whole()


async def test_one_that_fails_among_those_under_way_fails_alone(server: Server, model: FakeModel) -> None:
    turns = iter([True, False] * 3)

    def every_other(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if next(turns):
            raise LOST
        return tuple(inputs)

    model.compute = every_other
    model.gate.close()
    under_way = [asyncio.create_task(server.call(way)) for way in SAY_CODES.values()]
    await server.comes_to(running=SLOTS, queued=4)
    model.gate.open()
    assert Counter(await asyncio.gather(*under_way)) == {"INFERENCE_FAILED": 3, OK: 3}
    model.compute = echo
    await server.is_whole(failed=3, finished=3)
