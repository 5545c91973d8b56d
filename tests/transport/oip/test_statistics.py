"""The statistics extension, as Triton's clients read it over gRPC and over HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
from tests.plain_http import plain_client, with_triton
from tests.transport.conftest import plain
from tritonclient.utils import InferenceServerException

from inferwire_server.engine.fake_backend import FakeModel, echo_spec

ROW = np.arange(4, dtype=np.float32).reshape(1, 4)


@pytest.fixture
def models() -> dict[str, FakeModel]:
    return {name: FakeModel(echo_spec(name)) for name in ("echo", "other")}


async def infer(client: Any) -> None:
    given: Any = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
    given.set_data_from_numpy(ROW)
    await client.infer("echo", [given])


async def test_both_faces_count_alike(rpc: Any, rest_address: str) -> None:
    for _ in range(3):
        await infer(rpc)
    over_grpc = await rpc.get_inference_statistics("echo", as_json=True)

    one = await with_triton(rest_address, lambda client: client.get_inference_statistics("echo", "1"))
    every = await with_triton(rest_address, lambda client: client.get_inference_statistics())
    (echo,) = one["model_stats"]
    assert (echo["name"], echo["version"], echo["inference_count"], echo["execution_count"]) == ("echo", "1", 3, 3)
    phases = echo["inference_stats"]
    assert {name: phase["count"] for name, phase in phases.items()} == {
        "success": 3,
        "fail": 0,
        "queue": 3,
        "compute_input": 3,
        "compute_infer": 3,
        "compute_output": 3,
        "cache_hit": 0,
        "cache_miss": 0,
    }
    assert phases["success"]["ns"] >= phases["compute_infer"]["ns"] > 0
    assert [(batch["batch_size"], batch["compute_infer"]["count"]) for batch in echo["batch_stats"]] == [(1, 3)]
    assert plain(over_grpc) == plain(one)
    assert [model["name"] for model in every["model_stats"]] == ["echo", "other"]
    assert echo["last_inference"] > 1_600_000_000_000


async def test_a_model_that_is_not_there_is_said_as_clients_expect(rpc: Any, rest_address: str) -> None:
    with pytest.raises(InferenceServerException, match="requested model 'nope' is not available") as raised:
        await rpc.get_inference_statistics("nope")
    assert raised.value.status() == "StatusCode.INVALID_ARGUMENT"
    async with plain_client(base_url=f"http://{rest_address}/v2/models") as client:
        for path, sentence in {
            "nope/stats": "requested model 'nope' is not available",
            "echo/versions/9/stats": "requested model version is not available for model 'echo': version 9",
            "echo/versions/x/stats": "failed to get model version from specified version string 'x'",
        }.items():
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["error"]) == (400, sentence)


async def test_the_extension_is_listed(rpc: Any) -> None:
    assert "statistics" in (await rpc.get_server_metadata()).extensions
