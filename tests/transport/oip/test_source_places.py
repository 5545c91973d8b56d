"""OpenVINO's errors without the places in its sources, for callers of the protocol over gRPC and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from tests.transport.conftest import Models
from tritonclient.grpc import InferInput
from tritonclient.utils import InferenceServerException

from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import inference_pb2 as v1
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.settings import Settings

PLACES = "Exception from src/inference/src/cpp/infer_request.cpp:246:\nException from src/node.cpp:20:\n"
REASON = "shapes [2] and [3] do not fit"


def fails(_: Sequence[Tensor]) -> tuple[Tensor, ...]:
    raise ServingError(Code.INFERENCE_FAILED, PLACES + REASON)


class Backend(FakeBackend):
    """A runtime that cannot compile one of its models."""

    def compile(self, source: Source, options: ModelOptions) -> FakeModel:
        """Compile a model, other than the broken one."""
        if options.name == "broken":
            raise ServingError(Code.MODEL_FAILED, PLACES + REASON)
        return super().compile(source, options)


@pytest.fixture
def make_backend() -> Callable[[Models], FakeBackend]:
    return Backend


@pytest.fixture
def models() -> Models:
    return {"fails": FakeModel(echo_spec("fails"), compute=fails), "broken": FakeModel(echo_spec("broken"))}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(model_repository=tmp_path / "models", allow_model_control=True)


def inputs() -> list[InferInput]:
    return [InferInput("x", [1, 4], "FP32").set_data_from_numpy(np.ones((1, 4), np.float32))]


async def test_the_index_tells_why_a_model_failed_without_them(rpc: Any, rest_address: str) -> None:
    (broken,) = [model for model in (await rpc.get_model_repository_index()).models if model.name == "broken"]
    assert broken.reason == REASON
    async with httpx.AsyncClient(base_url=f"http://{rest_address}") as client:
        models = (await client.post("/v2/repository/index")).json()
    assert [model["reason"] for model in models if model["name"] == "broken"] == [REASON]


async def test_calls_that_fail_say_why_without_them(rpc: Any) -> None:
    def infer(name: str) -> Any:
        return rpc.infer(name, inputs())

    for call in (infer, rpc.get_model_metadata, rpc.load_model):
        with pytest.raises(InferenceServerException) as caught:
            await call("broken")
        assert caught.value.message() == f"failed to load 'broken' version 1: {REASON}"
    with pytest.raises(InferenceServerException) as caught:
        await rpc.infer("fails", inputs())
    assert (caught.value.status(), caught.value.message()) == ("StatusCode.INTERNAL", REASON)


async def test_so_do_requests_on_a_stream(rpc: Any) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "fails", "inputs": inputs(), "request_id": "7"}

    assert [str(error) async for _, error in rpc.stream_infer(requests())] == [f"[request id: 7] {REASON}"]


async def test_the_mirror_s_calls_tell_all_as_openvino_does(channel: grpc.aio.Channel) -> None:
    request = v1.InferRequest(execution=v1.Execution(target=v1.Target(served="broken")))
    call = channel.unary_unary(
        "/inferwire.v1.InferenceService/Infer", v1.InferRequest.SerializeToString, v1.InferResponse.FromString
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(request)
    assert caught.value.details() == f"failed to load 'broken' version 1: {PLACES}{REASON}"
