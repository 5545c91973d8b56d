"""Shared memory over REST, as Triton's clients never ask for it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import tritonclient.http as triton_http
from tests.plain_http import plain_client
from tests.transport.oip.shared_memory.triton_caller import ROW, Caller, content, fill
from tests.waiting import LIMIT_S


async def test_a_job_may_use_it(new_caller: Callable[[ModuleType], Caller], addresses: dict[ModuleType, str]) -> None:
    handle = await new_caller(triton_http).region("r")
    fill(handle, ROW)
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": place}
    wanted = {"name": "y", "parameters": place | {"shared_memory_offset": 32}}
    async with plain_client(base_url=f"http://{addresses[triton_http]}", timeout=LIMIT_S) as client:
        started = await client.post("/inferwire/v1/models/echo/jobs", json={"inputs": [given], "outputs": [wanted]})
        job = started.headers["location"]
        assert (await client.get(job, params={"wait_s": LIMIT_S})).json()["state"] == "finished"
        (output,) = (await client.get(f"{job}/result")).json()["outputs"]
    parameters = {**place, "shared_memory_offset": 32, "binary_data_size": 0}
    assert output == {"name": "y", "datatype": "FP32", "shape": [1, 4], "parameters": parameters}
    np.testing.assert_array_equal(content(handle, 32), ROW)


REGISTRATIONS: list[tuple[bytes, str]] = [
    (b"{}", "the 'key' of shared memory region 'r' is null, expected a string"),
    (b'{"key":7}', "the 'key' of shared memory region 'r' is a number"),
    (b'{"key":"k","byte_size":1.5}', "the 'byte_size' of shared memory region 'r' is 1.5, expected a number of bytes"),
    (b'{"key":"k","byte_size":true}', "the 'byte_size' of shared memory region 'r' is a boolean"),
    (b'{"key":"k","byte_size":1,"offset":"0"}', "the 'offset' of shared memory region 'r' is a string"),
    (b'{"key":"k","byte_size":1,"offset":-1}', "shared memory key 'k' has offset -1 and byte size 1"),
    (b'{"key":"k"}', "shared memory key 'k' has offset 0 and byte size 0"),
    (b'{"key":"k","byte_size":null,"offset":null}', "shared memory key 'k' has offset 0 and byte size 0"),
    (b"key=k&byte_size=1", "the body is no JSON"),
    (b"[]", "the body is no JSON object"),
]


async def test_encoded_slashes_are_slashes(
    new_caller: Callable[[ModuleType], Caller], addresses: dict[ModuleType, str]
) -> None:
    caller = new_caller(triton_http)
    await caller.region("a/b")
    async with plain_client(timeout=LIMIT_S, base_url=f"http://{addresses[triton_http]}") as client:
        ((region,)) = (await client.get("/v2/systemsharedmemory/region/a%2Fb/status")).json()
        assert region["name"] == "a/b"
        assert (await client.post("/v2/systemsharedmemory/region/a%2fb/unregister")).status_code == 200
    assert await caller.status() == {}


@pytest.mark.parametrize(("method", "last"), [("POST", "register"), ("GET", "status"), ("POST", "unregister")])
async def test_a_path_with_an_empty_name_is_refused_and_does_not_mean_all(
    new_caller: Callable[[ModuleType], Caller], addresses: dict[ModuleType, str], method: str, last: str
) -> None:
    caller = new_caller(triton_http)
    await caller.region("r")
    async with plain_client(timeout=LIMIT_S, base_url=f"http://{addresses[triton_http]}") as client:
        refused = await client.request(method, f"/v2/systemsharedmemory/region//{last}")
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_INPUT")
    assert "names no region" in refused.json()["error"]
    assert set(await caller.status()) == {"r"}


@pytest.mark.parametrize(("body", "sentence"), REGISTRATIONS)
async def test_a_body_that_registers_nothing_is_refused(
    addresses: dict[ModuleType, str], body: bytes, sentence: str
) -> None:
    url = f"http://{addresses[triton_http]}/v2/systemsharedmemory/region/r/register"
    async with plain_client(timeout=LIMIT_S) as client:
        response = await client.post(url, content=body)
    assert response.status_code == 400
    assert response.json()["error"].startswith(sentence)


async def test_the_content_type_is_not_looked_at(
    new_caller: Callable[[ModuleType], Caller], addresses: dict[ModuleType, str]
) -> None:
    caller = new_caller(triton_http)
    key, _ = caller.segment()
    url = f"http://{addresses[triton_http]}/v2/systemsharedmemory/region/r/register"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    async with plain_client(timeout=LIMIT_S) as client:
        response = await client.post(url, content=f'{{"key":"{key}","byte_size":64}}', headers=headers)
    assert response.status_code == 200, response.text
    assert await caller.status() == {"r": (key, 0, 64)}


@pytest.mark.parametrize("beside", ["data", "binary_data_size"])
async def test_json_gives_a_tensor_once(addresses: dict[ModuleType, str], beside: str) -> None:
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": place}
    given |= {"data": [0, 1, 2, 3]} if beside == "data" else {"parameters": place | {"binary_data_size": 16}}
    async with plain_client(timeout=LIMIT_S) as client:
        response = await client.post(f"http://{addresses[triton_http]}/v2/models/echo/infer", json={"inputs": [given]})
    assert response.status_code == 400
    assert response.json()["error"] == (
        f"input 'x' has both '{beside}' and 'shared_memory_region', expected one of them"
    )
