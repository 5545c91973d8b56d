"""The repository extension over gRPC."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from inferwire_proto.errors import CODE_METADATA
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.server import Composition
from inferwire_server.settings import Settings

SERVICE = "/inference.GRPCInferenceService"


@pytest.fixture
def settings(tmp_path: Path, allowed: bool) -> Settings:
    return Settings(model_repository=tmp_path / "models", allow_model_control=allowed)


@pytest.fixture
def allowed() -> bool:
    return True


async def load(channel: grpc.aio.Channel, request: pb.RepositoryModelLoadRequest) -> None:
    call = channel.unary_unary(
        f"{SERVICE}/RepositoryModelLoad",
        pb.RepositoryModelLoadRequest.SerializeToString,
        pb.RepositoryModelLoadResponse.FromString,
    )
    await call(request)


async def unload(channel: grpc.aio.Channel, name: str) -> None:
    call = channel.unary_unary(
        f"{SERVICE}/RepositoryModelUnload",
        pb.RepositoryModelUnloadRequest.SerializeToString,
        pb.RepositoryModelUnloadResponse.FromString,
    )
    await call(pb.RepositoryModelUnloadRequest(model_name=name))


async def states(channel: grpc.aio.Channel, *, ready: bool = False) -> list[tuple[str, str, str]]:
    call = channel.unary_unary(
        f"{SERVICE}/RepositoryIndex",
        pb.RepositoryIndexRequest.SerializeToString,
        pb.RepositoryIndexResponse.FromString,
    )
    answer = await call(pb.RepositoryIndexRequest(ready=ready))
    return [(model.name, model.state, model.reason) for model in answer.models]


async def test_a_model_is_unloaded_and_loaded(channel: grpc.aio.Channel) -> None:
    assert await states(channel) == [("echo", "READY", "")]
    await unload(channel, "echo")
    assert await states(channel) == [("echo", "UNAVAILABLE", "unloaded")]
    assert await states(channel, ready=True) == []
    await load(channel, pb.RepositoryModelLoadRequest(model_name="echo"))
    assert await states(channel, ready=True) == [("echo", "READY", "")]
    await unload(channel, "nobody")


async def test_a_model_that_is_unloaded_until_its_next_job_is_ready(
    channel: grpc.aio.Channel, composition: Composition
) -> None:
    served = composition.catalogue.find("echo")
    composition.catalogue.put(served.unloads_as_idle("no job for 600 s"))
    assert composition.services.health.is_model_ready("echo")
    assert await states(channel, ready=True) == [("echo", "READY", "no job for 600 s")]


async def refusal(channel: grpc.aio.Channel, request: pb.RepositoryModelLoadRequest) -> tuple[str, str]:
    status, sentence, _ = await refusal_and_code(channel, request)
    return status, sentence


async def refusal_and_code(
    channel: grpc.aio.Channel, request: pb.RepositoryModelLoadRequest
) -> tuple[str, str, str | bytes]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await load(channel, request)
    trailers = dict(iter(caught.value.trailing_metadata()))
    return caught.value.code().name, caught.value.details() or "", trailers[CODE_METADATA]


async def test_what_cannot_be_loaded_is_said(channel: grpc.aio.Channel) -> None:
    request = pb.RepositoryModelLoadRequest(model_name="x")
    # The status and the sentence are Triton's, which its clients expect; the code is not that of a bug.
    assert await refusal_and_code(channel, request) == (
        "INTERNAL",
        "failed to load 'x', failed to poll from model repository",
        "MODEL_NOT_FOUND",
    )
    request = pb.RepositoryModelLoadRequest(model_name="echo")
    request.parameters["colour"].string_param = "red"
    request.parameters["nothing"].SetInParent()
    assert await refusal(channel, request) == (
        "UNIMPLEMENTED",
        "the load of model 'echo' has parameter 'colour', expected config or none",
    )


@pytest.mark.parametrize("allowed", [False])
async def test_control_is_off_unless_it_is_allowed(channel: grpc.aio.Channel) -> None:
    code, sentence = await refusal(channel, pb.RepositoryModelLoadRequest(model_name="echo"))
    assert code == "PERMISSION_DENIED"
    assert sentence.startswith("explicit model load / unload is not allowed")
