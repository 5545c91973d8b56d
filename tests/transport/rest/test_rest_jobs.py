"""Asynchronous jobs over REST: start, wait, collect, cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest
from tests.transport.rest.conftest import Rest, X, sentence

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.tensors import Tensor
from inferwire_server.service.values import Inference, ServedModel, Wanted


async def start(rest: Rest, model: str, **more: object) -> str:
    response = await rest.client.post(f"/inferwire/v1/models/{model}/jobs", json={"inputs": [X], **more})
    assert response.status_code == 202, response.text
    job_id = response.json()["id"]
    assert response.headers["location"] == f"/inferwire/v1/jobs/{job_id}"
    return job_id


async def look(rest: Rest, job_id: str, wait_s: object = 0) -> dict[str, Any]:
    response = await rest.client.get(f"/inferwire/v1/jobs/{job_id}", params={"wait_s": str(wait_s)})
    assert response.status_code == 200, response.text
    return response.json()


async def collect(rest: Rest, job_id: str, **params: str) -> httpx.Response:
    return await rest.client.get(f"/inferwire/v1/jobs/{job_id}/result", params=params)


async def test_a_job_is_started_waited_for_and_collected_until_released(rest: Rest) -> None:
    job_id = await start(rest, "echo", id="7")
    ended = await look(rest, job_id, 10)
    assert (ended["state"], ended["model_name"], ended["model_version"]) == ("finished", "echo", "1")
    assert set(ended["timings"]) == {"queue_us", "inference_us", "total_us"}
    for release in ("false", "true"):
        answer = (await collect(rest, job_id, release=release)).json()
        assert (answer["id"], answer["outputs"][0]["data"]) == ("7", X["data"])
    assert job_id in sentence(await collect(rest, job_id), Code.JOB_NOT_FOUND)


@pytest.mark.parametrize(
    ("just_short", "too_long", "what"),
    [
        ({"id": "n" * 1024}, {"id": "n" * 1025}, "the request's 'id'"),
        (
            {"parameters": {"sequence_id": "n" * 1024}},
            {"parameters": {"sequence_id": "n" * 1025}},
            "parameter 'sequence_id'",
        ),
    ],
    ids=["id", "sequence_id"],
)
async def test_what_is_kept_with_a_job_has_short_names(
    rest: Rest, just_short: dict[str, Any], too_long: dict[str, Any], what: str
) -> None:
    assert (await look(rest, await start(rest, "echo", **just_short), 10))["state"] == "finished"
    refused = await rest.client.post("/inferwire/v1/models/echo/jobs", json={"inputs": [X], **too_long})
    assert sentence(refused) == f"{what} has 1025 characters, expected at most 1024"


async def test_a_job_that_asks_gets_the_time_of_each_layer(rest: Rest) -> None:
    for asked in ("true", "false"):
        response = await rest.client.post(
            "/inferwire/v1/models/echo/jobs", json={"inputs": [X]}, params={"profile": asked}
        )
        ended = await look(rest, response.json()["id"], 10)
        row = {"node_name": "echo", "node_type": "Fake", "exec_type": "python", "status": "EXECUTED"}
        times = {"real_time_us": 7, "cpu_time_us": 5}
        assert ended.get("profile") == ([row | times] if asked == "true" else None)
    refused = await rest.client.post("/inferwire/v1/models/echo/jobs", json={"inputs": [X]}, params={"profile": "yes"})
    assert sentence(refused) == "profile is 'yes', expected true or false"


async def test_a_job_with_what_rest_cannot_carry_is_refused_where_it_is_collected(rest: Rest) -> None:
    row = Tensor(BY_NAME["f8e4m3"], (1,), b"\0")
    job_id = rest.services.jobs.start(Inference(Wanted(ServedModel("f8e4m3")), ((0, row),)))
    assert (await look(rest, job_id, 10))["state"] == "finished"
    assert sentence(await collect(rest, job_id)) == (
        "output 'x_out' of model 'f8e4m3' has element type f8e4m3, which the Open Inference Protocol cannot carry; "
        "use inferwire.v1 for it, or ask for other outputs"
    )


async def test_a_version_can_be_named(rest: Rest) -> None:
    response = await rest.client.post("/inferwire/v1/models/echo/versions/1/jobs", json={"inputs": [X]})
    assert (response.status_code, response.json()["model_version"]) == (202, "1")


async def test_running_out_of_time_to_wait_is_an_answer(rest: Rest) -> None:
    job_id = await start(rest, "gated")
    await asyncio.to_thread(rest.models["gated"].gate.wait_held, 1)
    for wait_s in (0, 0.01):
        running = await look(rest, job_id, wait_s)
        assert running["state"] == "running"
        assert "timings" not in running
    assert "is running, expected one that has ended" in sentence(await collect(rest, job_id))
    rest.models["gated"].gate.open()
    assert (await look(rest, job_id, 10))["state"] == "finished"


async def test_a_waiting_call_is_answered_when_the_job_ends(rest: Rest) -> None:
    job_id = await start(rest, "gated")
    await asyncio.to_thread(rest.models["gated"].gate.wait_held, 1)
    waiting = asyncio.ensure_future(look(rest, job_id, 60))
    cancelled = await rest.client.delete(f"/inferwire/v1/jobs/{job_id}")
    assert cancelled.json()["state"] == "cancelled"
    assert (await waiting)["state"] == "cancelled"
    assert sentence(await collect(rest, job_id), Code.CANCELLED) == "the job was cancelled"
    assert (await look(rest, job_id))["code"] == "CANCELLED"


async def test_cancelling_a_job_that_has_ended_changes_nothing(rest: Rest) -> None:
    job_id = await start(rest, "echo")
    assert (await look(rest, job_id, 10))["state"] == "finished"
    assert (await rest.client.delete(f"/inferwire/v1/jobs/{job_id}")).json()["state"] == "finished"
    assert (await collect(rest, job_id)).status_code == 200


async def test_the_request_decides_how_its_result_is_written(rest: Rest) -> None:
    job_id = await start(rest, "echo", parameters={"binary_data_output": True})
    await look(rest, job_id, 10)
    response = await collect(rest, job_id)
    length = int(response.headers["inference-header-content-length"])
    assert response.content[length:] == np.array(X["data"], np.float32).tobytes()
    assert int(response.headers["inferwire-total-us"]) >= 0


async def test_a_job_from_elsewhere_is_collected_in_plain_json(rest: Rest) -> None:
    spec = rest.models["echo"].spec
    data = Tensor(spec.inputs[0].element_type, (1, 4), np.ones(4, np.float32).tobytes())
    job_id = rest.services.jobs.start(Inference(Wanted(ServedModel("echo"), (0,)), ((0, data),)))
    await look(rest, job_id, 10)
    assert (await collect(rest, job_id)).json()["outputs"][0]["data"] == [1.0] * 4


@pytest.mark.parametrize("wait_s", ["nan", "inf", "-1", "61", "x", ""])
async def test_a_time_to_wait_has_bounds(rest: Rest, wait_s: str) -> None:
    job_id = await start(rest, "echo")
    response = await rest.client.get(f"/inferwire/v1/jobs/{job_id}?wait_s={wait_s}")
    assert sentence(response) == f"wait_s is '{wait_s}', expected seconds from 0 to 60"


async def test_release_is_true_or_false(rest: Rest) -> None:
    job_id = await start(rest, "echo")
    assert sentence(await collect(rest, job_id, release="maybe")) == "release is 'maybe', expected true or false"


async def test_a_job_nobody_knows_is_not_found(rest: Rest) -> None:
    path = "/inferwire/v1/jobs/none"
    for response in (await rest.client.get(path), await rest.client.delete(path), await collect(rest, "none")):
        assert "job 'none' is not known" in sentence(response, Code.JOB_NOT_FOUND)


async def test_a_job_that_is_refused_gets_no_id(rest: Rest) -> None:
    response = await rest.client.post("/inferwire/v1/models/echo/jobs", json={"inputs": []})
    assert "input 'x' of model 'echo' is missing" in sentence(response)
