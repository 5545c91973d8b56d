"""What no client should send, over gRPC and over HTTP: each is refused in a sentence, and nobody else notices."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from tests.plain_http import plain_client

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.engine.fake_backend import FakeModel
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb

SERVICE = "/inference.GRPCInferenceService"
OPEN = Dimension(0, None)
LONGEST_SENTENCE = 6100

Load = Callable[[], Awaitable[Any]]


def same(name: str, type_name: str, shape: tuple[Dimension, ...] | None) -> FakeModel:
    port = PortSpec(frozenset({"x"}), "x", BY_NAME[type_name], shape, "x", "Parameter")
    return FakeModel(ModelSpec(name, (port,), (port,)))


@pytest.fixture
def models() -> dict[str, FakeModel]:
    return {
        "grid": same("grid", "f32", (OPEN, OPEN)),
        "any": same("any", "f32", None),
        "text": same("text", "string", (OPEN,)),
    }


def message(model: str, shape: list[int], raw: bytes, datatype: str = "FP32", name: str = "x") -> bytes:
    request = pb.ModelInferRequest(model_name=model, raw_input_contents=[raw])
    request.inputs.add(name=name, datatype=datatype, shape=shape)
    return request.SerializeToString()


def document(_model: str, shape: list[int], raw: bytes, datatype: str = "FP32", name: str = "x") -> tuple[bytes, bytes]:
    """Give the JSON of the same request, and what follows it."""
    given = {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(raw)}}
    return json.dumps({"inputs": [given]}).encode(), raw


SHAPES: list[tuple[tuple[Any, ...], str]] = [
    (("grid", [0, 2**62], b""), "has shape [0,4611686018427387904], expected at most"),
    (("grid", [2**62, 0], b""), "expected at most 72057594037927936 elements beside its zeros"),
    (("any", [2**30, 2**30, 0], b""), "expected at most 72057594037927936 elements beside its zeros"),
    (("grid", [2**32, 2**32], b""), "has 0 bytes, expected 73786976294838206464 for f32[4294967296,4294967296]"),
    (("grid", [2**32 + 1, 1], bytes(4)), "has 4 bytes, expected 17179869188 for f32[4294967297,1]"),
    (("grid", [2**62, 4], b""), "has 0 bytes, expected 73786976294838206464"),
    (("grid", [1, 1], bytes(3)), "has 3 bytes, expected 4 for f32[1,1]"),
    (("grid", [1] * 5000, b""), "has shape [1,1,1,"),
    (("text", [2**40], b"", "BYTES"), "string 0 of 1099511627776 has 0 bytes of its length, expected 4"),
    (("text", [1], b"\xff\xff\xff\xffab", "BYTES"), "string 0 of 1 has 2 bytes, expected 4294967295"),
    (("text", [1], b"\1\0\0\0ab", "BYTES"), "is no string[1]: "),
    (("grid", [1, 1], bytes(4), "FP32", "n" * 50_000), "input 'nnnn"),
    (("m" * 50_000, [1, 1], bytes(4)), "Request for unknown model: 'mmm"),
]
NAMES = [sentence for _, sentence in SHAPES]


async def refused_over_grpc(channel: grpc.aio.Channel, method: str, data: bytes) -> tuple[str, str]:
    call: Any = channel.unary_unary(f"{SERVICE}/{method}")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(data)
    return raised.value.code().name, str(raised.value.details())


@pytest.mark.parametrize(("given", "sentence"), SHAPES, ids=NAMES)
async def test_a_shape_that_is_none_is_refused_over_grpc(
    channel: grpc.aio.Channel, load: Load, given: tuple[Any, ...], sentence: str
) -> None:
    before = await load()
    code, details = await refused_over_grpc(channel, "ModelInfer", message(*given))
    assert code in ("INVALID_ARGUMENT", "NOT_FOUND")
    assert sentence in details
    assert len(details) < LONGEST_SENTENCE
    good: Any = channel.unary_unary(f"{SERVICE}/ModelInfer")
    assert await good(message("grid", [1, 1], bytes(4)))
    assert await load() == before


@pytest.mark.parametrize(("given", "sentence"), SHAPES, ids=NAMES)
async def test_a_shape_that_is_none_is_refused_over_http(
    rest_address: str, load: Load, given: tuple[Any, ...], sentence: str
) -> None:
    before = await load()
    head, tail = document(*given)
    async with plain_client(base_url=f"http://{rest_address}/v2/models") as client:
        answer = await client.post(
            f"/{given[0]}/infer", content=head + tail, headers={"inference-header-content-length": str(len(head))}
        )
        assert answer.status_code in (400, 404)
        assert sentence in answer.json()["error"]
        assert len(answer.json()["error"]) < LONGEST_SENTENCE
        good = await client.post("/grid/infer", content=bytes(4), headers={"inference-header-content-length": "0"})
        assert good.status_code == 200
    assert await load() == before


@pytest.mark.parametrize("method", ["ModelInfer", "ModelMetadata", "RepositoryModelLoad", "LogSettings"])
@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x0a\x7f"])
async def test_bytes_that_are_no_message_are_the_caller_s_fault(
    channel: grpc.aio.Channel, method: str, data: bytes
) -> None:
    if method == "LogSettings":
        data = b"\x0a\x04\x0a\x02\xff\xfe"
    code, details = await refused_over_grpc(channel, method, data)
    assert code == "INVALID_ARGUMENT"
    assert f"inference.{method}Request" in details


@pytest.mark.parametrize("whose", ["request", "input", "output", "load"])
async def test_more_parameters_than_anybody_has_are_refused(channel: grpc.aio.Channel, whose: str) -> None:
    request = pb.ModelInferRequest(model_name="grid", raw_input_contents=[bytes(4)])
    given = request.inputs.add(name="x", datatype="FP32", shape=[1, 1])
    load = pb.RepositoryModelLoadRequest(model_name="grid")
    if whose == "load":
        for number in range(5000):
            load.parameters[str(number)].int64_param = 1
    else:
        of = {"request": request, "input": given}.get(whose) or request.outputs.add(name="x")
        for number in range(5000):
            of.parameters[str(number)].int64_param = 1
    method, message = ("RepositoryModelLoad", load) if whose == "load" else ("ModelInfer", request)
    refusal = await refused_over_grpc(channel, method, message.SerializeToString())
    assert refusal == ("INVALID_ARGUMENT", "there are 5000 parameters, expected at most 4096")


@pytest.mark.parametrize("what", ["inputs", "outputs"])
@pytest.mark.parametrize("raw", [[], [bytes(4)]], ids=["in the head", "raw"])
async def test_more_inputs_or_outputs_than_anybody_has_are_refused(
    channel: grpc.aio.Channel, what: str, raw: list[bytes]
) -> None:
    request = pb.ModelInferRequest(model_name="grid", raw_input_contents=raw)
    for _ in range(40_000):
        getattr(request, what).add()
    refusal = await refused_over_grpc(channel, "ModelInfer", request.SerializeToString())
    assert refusal == ("INVALID_ARGUMENT", f"there are 40000 {what}, expected at most 4096")


@pytest.mark.parametrize("method", ["LogSettings", "TraceSetting"])
async def test_more_settings_than_anybody_has_are_refused(channel: grpc.aio.Channel, method: str) -> None:
    request = pb.LogSettingsRequest() if method == "LogSettings" else pb.TraceSettingRequest()
    for number in range(5000):
        request.settings[str(number)].SetInParent()
    refusal = await refused_over_grpc(channel, method, request.SerializeToString())
    assert refusal == ("INVALID_ARGUMENT", "there are 5000 settings, expected at most 4096")


FORM = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'

JSON: list[tuple[bytes, str]] = [
    (b'{"inputs":[{"name":"\\ud800"}]}', "the request is malformed JSON"),
    (b'{"inputs":[{"name":"\xff"}]}', "the request is malformed JSON"),
    (b'\xef\xbb\xbf{"inputs":[]}', "the request is malformed JSON"),
    ('{"inputs":[]}'.encode("utf-16"), "the request is malformed JSON"),
    (b'{"inputs":[]}{}', "where binary tensors follow it, Inference-Header-Content-Length says its length"),
    (b'{"inputs":[]}\xff\xff', "where binary tensors follow it, Inference-Header-Content-Length says its length"),
    (b"\x89PNG\r\n\x1a\n", "says its length, which is 0 where the body is one tensor's bytes or a picture alone"),
    (b"\xff\xd8\xff\xe0", "says its length, which is 0 where the body is one tensor's bytes or a picture alone"),
    (FORM + b"{}\r\n--x--\r\n", "a form's parts (multipart/form-data) are not read: the body is the document"),
    (FORM + b"\x89PNG\r\n\x1a\n\r\n--x--\r\n", "a form's parts (multipart/form-data) are not read"),
    (b'{"inputs":' + b"[" * 90_000, "the request is malformed JSON"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1e400]}]}', "the request is malformed JSON"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[' + b"9" * 5000 + b"]}]}", "malformed JSON"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[0,9223372036854775808]}]}', "expected integers from 0 on"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[0,1e30]}]}', "has 1e+30, expected integers from 0 on"),
    (b'{"inputs":[],"parameters":{"timeout":9223372036854775808}}', "parameter 'timeout' is 9223372036854775808"),
    (b'{"inputs":[],"parameters":{"sequence_id":1.5}}', "parameter 'sequence_id' is 1.5"),
    (b'{"inputs":[],"inputs":[]}', "input 'x' of model 'grid' is missing"),
    (b'{"inputs":[{"name":"x\\u0000","datatype":"FP32","shape":[1,1],"data":[1]}]}', "is not known"),
]


@pytest.mark.parametrize(("content", "sentence"), JSON, ids=[f"{i}-{case[1]}" for i, case in enumerate(JSON)])
async def test_a_document_that_is_none_is_refused(rest_address: str, content: bytes, sentence: str) -> None:
    async with plain_client(base_url=f"http://{rest_address}/v2/models") as client:
        answer = await client.post("/grid/infer", content=content)
        assert (answer.status_code, set(answer.json())) == (400, {"error", "code"})
        assert sentence in answer.json()["error"]


async def test_a_body_in_a_great_many_parts_is_one_body(rest_address: str) -> None:
    body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}'

    async def parts() -> AsyncIterator[bytes]:
        for byte in b" " * 20_000 + body:
            yield bytes([byte])

    async with plain_client(base_url=f"http://{rest_address}/v2/models", timeout=30) as client:
        answer = await client.post("/grid/infer", content=parts())
        assert answer.json()["outputs"][0]["data"] == [1.0]


@pytest.mark.parametrize("content", [b'\xef\xbb\xbf{"inputs":[]}', b'{"inputs":[NaN]}', b""])
async def test_no_header_is_missing_where_no_tensor_can_follow(rest_address: str, content: bytes) -> None:
    async with plain_client(base_url=f"http://{rest_address}/v2/models") as client:
        answer = await client.post("/grid/infer", content=content)
        assert "Inference-Header" not in answer.json()["error"]
