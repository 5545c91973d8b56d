"""Inputs with fewer bytes than their shape says: by no way in does memory that nobody has written to become one."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import grpc
import pytest
import pytest_asyncio
from tests.plain_http import plain_client
from tests.transport.open_session import OpenSession

from inferwire_proto.inferwire.v1 import inference_pb2, tensors_pb2, types_pb2
from inferwire_proto.lent_memory import NAME, NONCE_BYTES, SEALS
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import BY_NAME, FakeModel
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip
from inferwire_server.service import Services
from inferwire_server.service.values import Region
from inferwire_server.settings import Settings

SHAPE = (2, 4)
WHOLE = 32
TARGET = inference_pb2.Target(served="any")
PREFIX = "inferwire_test_"


@dataclass
class Server:
    """The ways in, and how often the model has run."""

    channel: grpc.aio.Channel
    rest_address: str
    services: Services
    runs: list[int]

    async def rpc(self, method: str, request: Any, **options: Any) -> bytes:
        """Make a call of gRPC."""
        call: Any = self.channel.unary_unary(f"/{method}")
        return await call(request.SerializeToString(), **options)

    async def post(self, content: bytes, header_bytes: int | None = None) -> str:
        """Send an inference over REST, and give what is wrong with it."""
        headers = {} if header_bytes is None else {"inference-header-content-length": str(header_bytes)}
        async with plain_client(base_url=f"http://{self.rest_address}") as client:
            answer = await client.post("/v2/models/any/infer", content=content, headers=headers)
        return "" if answer.status_code == 200 else answer.json()["error"]

    def session(self) -> OpenSession:
        """Make a session, for a block."""
        return OpenSession(self.channel)


def header(**place: Any) -> types_pb2.TensorHeader:
    return types_pb2.TensorHeader(element_type=types_pb2.ELEMENT_TYPE_F32, shape=SHAPE, **place)


def execution(**place: Any) -> inference_pb2.Execution:
    return inference_pb2.Execution(ids=[1], target=TARGET, inputs=[header(**place)])


def document(**tensor: Any) -> bytes:
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": SHAPE, **tensor}]}).encode()


def oip_request() -> oip.ModelInferRequest:
    request = oip.ModelInferRequest(model_name="any")
    request.inputs.add(name="x", datatype="FP32", shape=SHAPE)
    return request


async def oip_raw(server: Server, count: int) -> None:
    request = oip_request()
    request.raw_input_contents.append(bytes(count))
    await server.rpc("inference.GRPCInferenceService/ModelInfer", request)


async def oip_contents(server: Server, count: int) -> None:
    request = oip_request()
    request.inputs[0].contents.fp32_contents.extend([0.0] * (count // 4))
    await server.rpc("inference.GRPCInferenceService/ModelInfer", request)


async def rest_json(server: Server, count: int) -> str:
    return await server.post(document(data=[0.0] * (count // 4)))


async def rest_binary(server: Server, count: int) -> str:
    head = document(parameters={"binary_data_size": count})
    return await server.post(head + bytes(count), len(head))


async def one_call(server: Server, count: int) -> None:
    request = inference_pb2.InferRequest(execution=execution(), raw=[bytes(count)])
    request.execution.ClearField("ids")
    await server.rpc("inferwire.v1.InferenceService/Infer", request)


async def named_job(server: Server, count: int) -> None:
    request = inference_pb2.StartAsyncRequest(execution=execution(), raw=[bytes(count)])
    request.execution.ClearField("ids")
    await server.rpc("inferwire.v1.InferenceService/StartAsync", request)


async def stream(server: Server, count: int, *ids: int) -> str:
    asked = execution()
    asked.ids.extend(ids)
    raw = [bytes(count * len(asked.ids))]
    async with server.session() as session:
        return await said_on(session, inference_pb2.SessionRequest(executions=[asked], raw=raw))


async def said_on(session: OpenSession, request: inference_pb2.SessionRequest) -> str:
    """Send executions, and give what is wrong with the first."""
    await session.stream.write(request.SerializeToString())
    answer = inference_pb2.SessionResponse.FromString(await session.stream.read())
    return answer.results[0].error.message


async def stack(server: Server, count: int) -> str:
    return await stream(server, count, 2, 3)


async def kept(server: Server, count: int) -> None:
    stored = header(stored=types_pb2.StoredTensor(id=1))
    await create_and_put(server, stored, stored, count)


async def kept_box(server: Server, count: int) -> None:
    whole = types_pb2.TensorHeader(
        element_type=types_pb2.ELEMENT_TYPE_F32, shape=(4, 4), stored=types_pb2.StoredTensor(id=1)
    )
    box = header(stored=types_pb2.StoredTensor(id=1, begin=[1, 0], end=[3, 4]))
    await create_and_put(server, whole, box, count)


async def create_and_put(
    server: Server, whole: types_pb2.TensorHeader, box: types_pb2.TensorHeader, count: int
) -> None:
    """Have a tensor made, and write a box of it."""
    async with server.session() as session:
        for name, request in (
            ("CreateTensor", tensors_pb2.CreateTensorRequest(tensor=whole)),
            ("PutTensor", tensors_pb2.PutTensorRequest(tensor=box, raw=[bytes(count)])),
        ):
            await server.rpc(f"inferwire.v1.TensorService/{name}", request, metadata=session.metadata)
    server.runs.append(1)  # what is kept may be an input


async def lent(server: Server, count: int) -> str:
    nonce = bytes(range(NONCE_BYTES))
    async with server.session() as session:
        descriptor = os.memfd_create(NAME, os.MFD_ALLOW_SEALING)
        try:
            # The nonce behind them is no part of what is lent.
            os.write(descriptor, bytes(count) + nonce)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
            loan = tensors_pb2.LendMemoryRequest(
                id=3, pid=os.getpid(), descriptor=descriptor, byte_size=count + NONCE_BYTES, nonce=nonce
            )
            await server.rpc("inferwire.v1.TensorService/LendMemory", loan, metadata=session.metadata)
        finally:
            os.close(descriptor)
        return await said_on(session, inference_pb2.SessionRequest(executions=[execution(lent=3)]))


async def shared(server: Server, count: int) -> str:
    key = f"{PREFIX}{token_hex(4)}"
    segment = Path("/dev/shm") / key
    segment.write_bytes(bytes(WHOLE))
    try:
        await server.services.shared_memory.register(Region("region", key, 0, WHOLE))
    finally:
        segment.unlink()
    return await server.post(document(parameters={"shared_memory_region": "region", "shared_memory_byte_size": count}))


Way = Callable[[Server, int], Awaitable[str | None]]

WAYS: Sequence[Way] = (
    oip_raw,
    oip_contents,
    rest_json,
    rest_binary,
    one_call,
    named_job,
    stream,
    stack,
    kept,
    kept_box,
    lent,
    shared,
)


@pytest.fixture
def runs() -> list[int]:
    """An entry for each time the model has run."""
    return []


@pytest.fixture
def models(runs: list[int]) -> dict[str, FakeModel]:
    """One that takes any grid of f32, and does not look at the bytes."""
    shape = (Dimension(0, None), Dimension(0, None))
    port = PortSpec(frozenset({"x"}), "x", BY_NAME["f32"], shape, "x", "Parameter")

    def compute(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        runs.append(1)
        return tuple(inputs)

    return {"any": FakeModel(ModelSpec("any", (port,), (port,)), compute)}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(model_repository=tmp_path / "models", shared_memory=(PREFIX,), session_grace_s=0.0)


@pytest_asyncio.fixture
async def server(
    channel: grpc.aio.Channel, rest_address: str, services: Services, runs: list[int]
) -> AsyncIterator[Server]:
    yield Server(channel, rest_address, services, runs)


async def refusal(way: Way, server: Server, count: int) -> str:
    try:
        return await way(server, count) or ""
    except grpc.aio.AioRpcError as error:
        return str(error.details())


@pytest.mark.parametrize("count", [0, WHOLE - 4])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_an_input_without_its_bytes_is_refused(server: Server, way: Way, count: int) -> None:
    assert f"{WHOLE} bytes" in (sentence := await refusal(way, server, count)) or "expected" in sentence
    assert server.runs == []


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_the_same_with_its_bytes_is_not(server: Server, way: Way) -> None:
    assert not await refusal(way, server, WHOLE)
    if way is named_job:
        await server.services.inference.drain(10)
    assert server.runs
