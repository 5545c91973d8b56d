"""Long typed contents are read on a thread, as far as they can be the model's inputs; short ones where they come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
import pytest
from tests.busy_gil_thread import occupied

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME, BY_OIP
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.engine.fake_backend import FakeModel
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.service import Services

Models = dict[str, FakeModel]

TYPES: dict[str, tuple[str, list[Any]]] = {
    "BOOL": ("bool_contents", [True, False]),
    "INT8": ("int_contents", [-128, 127]),
    "INT32": ("int_contents", [-(2**31), 1]),
    "INT64": ("int64_contents", [-(2**63), 1]),
    "UINT16": ("uint_contents", [0, 65535]),
    "UINT64": ("uint64_contents", [1, 2**64 - 1]),
    "FP32": ("fp32_contents", [0.5, -1.0]),
    "FP64": ("fp64_contents", [0.1, -0.0]),
    "BYTES": ("bytes_contents", [b"a", b"bcd"]),
}

COUNT = 200_000
"""How many elements are long in every type."""


def spec(name: str) -> ModelSpec:
    """Give back what a model with rows of any length takes."""
    element_type, shape = BY_NAME[name], (Dimension(0, None),)
    port = PortSpec(frozenset({"x"}), "x", element_type, shape, "x", "Parameter")
    return ModelSpec(name, (port,), (PortSpec(frozenset({"y"}), "y", element_type, shape, "y", "Result"),))


@pytest.fixture
def models() -> Models:
    names = [BY_OIP[datatype].name for datatype in TYPES]
    return {name: FakeModel(spec(name)) for name in names}


def request(model: str, datatype: str, length: int, request_id: str = "", /, **contents: Any) -> bytes:
    message = pb.ModelInferRequest(model_name=model, id=request_id)
    message.inputs.add(name="x", datatype=datatype, shape=[length], contents=pb.InferTensorContents(**contents))
    return message.SerializeToString()


def packed(datatype: str, elements: Sequence[Any]) -> bytes:
    element_type = BY_OIP[datatype]
    if element_type.is_string:
        return strings.pack(elements)
    return np.array(elements, element_type.storage_dtype).tobytes()


async def infer(channel: grpc.aio.Channel, data: bytes) -> list[bytes]:
    call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    return list(pb.ModelInferResponse.FromString(await call(data)).raw_output_contents)


@pytest.mark.parametrize("datatype", TYPES)
async def test_long_contents_are_read_on_a_thread(channel: grpc.aio.Channel, services: Services, datatype: str) -> None:
    field, elements = TYPES[datatype]
    elements = elements * (COUNT // 2)
    data = request(BY_OIP[datatype].name, datatype, COUNT, **{field: elements})
    async with occupied(services.gil_thread) as wait_for:
        asking = asyncio.ensure_future(infer(channel, data))
        await wait_for(1)
    assert await asking == [packed(datatype, elements)]


async def test_short_contents_are_read_where_they_come(channel: grpc.aio.Channel, services: Services) -> None:
    async with occupied(services.gil_thread):
        assert await infer(channel, request("f32", "FP32", 2, fp32_contents=[1, 2])) == [packed("FP32", [1, 2])]


async def test_fields_that_nobody_knows_are_passed_over(channel: grpc.aio.Channel) -> None:
    elements = [0.5] * COUNT
    message = pb.ModelInferRequest.FromString(request("f32", "FP32", COUNT, fp32_contents=elements))
    message.inputs[0].contents.MergeFromString(b"\x98\x06\x01")  # field 99 is 1
    assert await infer(channel, message.SerializeToString()) == [packed("FP32", elements)]


REFUSED = [
    (request("i8", "INT8", COUNT, int_contents=[1] * (COUNT - 1) + [128]), "the element 128, which no INT8 can be"),
    (request("f32", "BYTES", 1, bytes_contents=[b""] * COUNT), "has element type string (BYTES), expected f32 (FP32)"),
    (request("f32", "FP32", -1, fp32_contents=[1] * COUNT), "has shape [-1], expected [?]"),
    (request("f32", "FP32", 1, fp32_contents=[1] * COUNT), f"has {COUNT} elements, expected 1 for FP32[1]"),
    (request("f32", "FP32", COUNT, fp64_contents=[1] * COUNT), "has elements in fp64_contents, expected them in fp32_"),
    (
        request("f32", "FP32", COUNT, fp32_contents=[1] * COUNT, bool_contents=[True]),
        "has elements in bool_contents and fp32_contents, expected them in fp32_contents alone for FP32",
    ),
    (request("nobody", "FP32", 1, fp32_contents=[1] * COUNT), "unknown model: 'nobody'"),
]


@pytest.mark.parametrize(("data", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
async def test_what_cannot_be_the_model_s_input_is_refused(
    channel: grpc.aio.Channel, data: bytes, sentence: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await infer(channel, data)
    assert sentence in str(caught.value.details())


async def test_a_stream_answers_long_and_short_ones_in_their_order(
    channel: grpc.aio.Channel, services: Services
) -> None:
    elements = [0.5] * COUNT
    stream: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")()
    async with occupied(services.gil_thread) as wait_for:
        await stream.write(request("f32", "FP32", COUNT, "long", fp32_contents=elements))
        await stream.write(request("f32", "BYTES", COUNT, "wrong", bytes_contents=[b""] * COUNT))
        await stream.write(request("f32", "FP32", 2, "short", fp32_contents=[1, 2]))
        await stream.done_writing()
        await wait_for(1)
    answers = [pb.ModelStreamInferResponse.FromString(answer) async for answer in stream]
    assert [answer.infer_response.id for answer in answers] == ["long", "wrong", "short"]
    assert "expected f32" in answers[1].error_message
    raw = [list(answer.infer_response.raw_output_contents) for answer in answers]
    assert raw == [[packed("FP32", elements)], [], [packed("FP32", [1, 2])]]
