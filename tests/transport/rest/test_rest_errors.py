"""Every code of the table on HTTP, and a server that bad input leaves as it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
import pytest
from structlog.testing import capture_logs
from tests.transport.rest.conftest import BODY_LIMIT, Rest, X, sentence, tensor

from inferwire_proto.errors import Code


@pytest.mark.parametrize("code", list(Code), ids=lambda code: code.name)
async def test_every_code_has_its_status_its_name_and_its_sentence(rest: Rest, code: Code) -> None:
    response = await rest.infer("fail", tensor("code", "UINT8", [1], [code.wire]))
    assert sentence(response, code) == f"{code.name} was asked for"
    assert response.headers.get("retry-after") == {Code.QUEUE_FULL: "2", Code.SHUTTING_DOWN: "1"}.get(code)


async def test_a_bug_is_an_id_that_the_log_explains(rest: Rest) -> None:
    with capture_logs() as logs:
        told = sentence(await rest.infer("bug", tensor("x", "FP32", [1], [1])), Code.INTERNAL)
    (entry,) = [entry for entry in logs if entry["event"] == "bug in a call"]
    assert told == f"a bug in the server; its log has more under id {entry['id']}"
    assert isinstance(entry["exc_info"], ValueError)
    assert entry["path"] == "/v2/models/bug/infer"


async def test_a_model_that_did_not_load_says_why(rest: Rest) -> None:
    for response in (await rest.infer("broken", X), await rest.client.get("/v2/models/broken")):
        assert sentence(response, Code.MODEL_FAILED) == (
            "failed to load 'broken' version 1: the fake runtime has no model 'broken'"
        )


async def test_a_full_queue_says_when_to_come_back(rest: Rest) -> None:
    (device,) = await rest.services.devices.list()
    for _ in range(1 + device.queue_capacity):
        started = await rest.client.post("/inferwire/v1/models/gated/jobs", json={"inputs": [X]})
        assert started.status_code == 202
    refused = await rest.infer("gated", X)
    assert "queue is full" in sentence(refused, Code.QUEUE_FULL)
    assert refused.headers["retry-after"] == "1"


async def test_a_server_that_drains_admits_nothing(rest: Rest) -> None:
    rest.services.health.end()
    await rest.services.inference.drain(0)
    refused = await rest.infer("echo", X)
    assert sentence(refused, Code.SHUTTING_DOWN) == "the server is shutting down"
    assert refused.headers["retry-after"] == "1"
    assert (await rest.client.get("/v2/health/ready")).status_code == 503


async def test_a_deadline_in_the_queue_is_kept(rest: Rest) -> None:
    response = await rest.infer("gated", X, parameters={"timeout": 1000})
    assert sentence(response, Code.DEADLINE_EXCEEDED) == (
        "the time limit of 0.001 s passed while the job was running on CPU: parameter 'timeout' is 1000 microseconds"
    )


Bad = Callable[[Rest], Awaitable[httpx.Response]]

BAD: dict[str, Bad] = {
    "unknown model": lambda rest: rest.infer("nope", X),
    "unknown version": lambda rest: rest.client.post("/v2/models/echo/versions/7/infer", json={"inputs": [X]}),
    "unknown input": lambda rest: rest.infer("echo", X | {"name": "z"}),
    "unknown output": lambda rest: rest.infer("echo", X, outputs=[{"name": "z"}]),
    "wrong dtype": lambda rest: rest.infer("echo", X | {"datatype": "INT32", "data": [1, 2, 3, 4]}),
    "wrong shape": lambda rest: rest.infer("echo", X | {"shape": [4, 1]}),
    "wrong rank": lambda rest: rest.infer("echo", X | {"shape": [4]}),
    "missing input": lambda rest: rest.infer("echo"),
    "duplicate input": lambda rest: rest.infer("echo", X, X),
    "malformed JSON": lambda rest: rest.post("echo", b'{"inputs":'),
    "not a number": lambda rest: rest.post("echo", b'{"inputs":[{"data":[NaN]}]}'),
    "oversize": lambda rest: rest.post("echo", bytes(BODY_LIMIT + 1)),
    "truncated": lambda rest: rest.post("echo", b"{}", {"inference-header-content-length": "99"}),
    "wrong byte count": lambda rest: rest.post("echo", bytes(15), {"inference-header-content-length": "0"}),
    "failed model": lambda rest: rest.infer("broken", X),
    "failed inference": lambda rest: rest.infer("fail", tensor("code", "UINT8", [1], [15])),
    "bug": lambda rest: rest.infer("bug", tensor("x", "FP32", [1], [1])),
    "no such path": lambda rest: rest.client.get("/v2/nothing"),
}


async def test_bad_input_between_good_leaves_no_slot_and_no_job_behind(rest: Rest) -> None:
    before = await rest.load()
    for name, bad in BAD.items():
        response = await bad(rest)
        assert response.status_code >= 400, name
        assert set(response.json()) == {"error", "code"}, name
        good = await rest.infer("echo", X)
        assert good.json()["outputs"][0]["data"] == X["data"], name
    assert await rest.load() == before
    assert (before.running, before.queued) == (0, 0)
    assert "0 in flight" in repr(rest.services.inference)
    assert "0 named jobs" in repr(rest.services.jobs)
