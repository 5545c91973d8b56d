"""The Open Inference Protocol over gRPC, spoken to by Triton's own client and by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import numpy as np
import pytest
import pytest_asyncio
from tritonclient.grpc import InferInput, InferRequestedOutput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from inferwire_proto.element_types import BY_NAME, BY_OIP
from inferwire_proto.errors import CODE_METADATA
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.service import Services
from inferwire_server.transport.oip.metadata import EXTENSIONS
from inferwire_server.transport.rpc.grpc_server import GrpcServer

Models = dict[str, FakeModel]
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
ROW = np.arange(4, dtype=np.float32)


def port(name: str, type_name: str, node_type: str = "Parameter") -> PortSpec:
    return PortSpec(frozenset({name}), name, BY_NAME[type_name], (Dimension(2, 2),), name, node_type)


def two_of(type_name: str) -> FakeModel:
    """Give back two elements of a type."""
    return FakeModel(ModelSpec(type_name, (port("x", type_name),), (port("y", type_name, "Result"),)))


@pytest.fixture
def models() -> Models:
    pair = ModelSpec("pair", (port("a", "f32"), port("b", "i64")), (port("c", "f32"), port("d", "i64")), ())
    slow = FakeModel(echo_spec("slow"), gate=Gate(is_open=False), optimal_slots=1)
    mixed = ModelSpec("mixed", (port("x", "f32"),), (port("y", "u4", "Result"), port("z", "f32", "Result")))
    result = PortSpec(frozenset({"y", "scores"}), "scores", BY_NAME["f32"], (Dimension(2, 2),), "y", "Result")
    alias = FakeModel(ModelSpec("alias", (port("x", "f32"),), (result,)))
    served = {"echo": FakeModel(echo_spec("echo")), "slow": slow, "pair": FakeModel(pair), "mixed": FakeModel(mixed)}
    return {**served, "alias": alias, **{row.name: two_of(row.name) for row in BY_OIP.values()}, "u4": two_of("u4")}


@pytest_asyncio.fixture
async def client(grpc_server: GrpcServer) -> AsyncIterator[Any]:
    opened: Any = InferenceServerClient(f"127.0.0.1:{grpc_server.port}")
    yield opened
    await opened.close()


def triton_input(name: str, array: Any, datatype: str) -> Any:
    made: Any = InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def request(model: str = "echo", **changes: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=model, raw_input_contents=[ROW.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    message.MergeFrom(pb.ModelInferRequest(**changes))
    return message


def typed(model: str, datatype: str, shape: Sequence[int] = (2,), **contents: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=model)
    message.inputs.add(name="x", datatype=datatype, shape=shape, contents=pb.InferTensorContents(**contents))
    return message


async def infer(channel: grpc.aio.Channel, message: pb.ModelInferRequest, **options: Any) -> pb.ModelInferResponse:
    call: Any = channel.unary_unary(INFER)
    return pb.ModelInferResponse.FromString(await call(message.SerializeToString(), **options))


async def failure(awaited: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await awaited
    return str(dict(iter(raised.value.trailing_metadata())).get(CODE_METADATA)), str(raised.value.details())


async def test_no_model_is_ready_while_the_server_drains(client: Any, services: Services) -> None:
    services.health.end()
    assert not await client.is_server_ready()
    assert not await client.is_model_ready("echo", "1")


async def test_the_server_and_its_models_are_described(client: Any) -> None:
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("echo", "1")
    assert not await client.is_model_ready("nope")
    server = await client.get_server_metadata()
    assert server.name == "inferwire"
    assert list(server.extensions) == list(EXTENSIONS)
    model = await client.get_model_metadata("echo")
    assert (model.name, list(model.versions), model.platform) == ("echo", ["1"], "openvino")
    assert (model.inputs[0].name, model.inputs[0].datatype, list(model.inputs[0].shape)) == ("x", "FP32", [-1, 4])
    assert (await client.get_model_metadata("u4")).inputs[0].datatype == "U4"


async def test_a_configuration_says_what_is_true(client: Any) -> None:
    config = (await client.get_model_config("echo", as_json=True))["config"]
    assert (config["name"], config["backend"], config.get("max_batch_size", 0)) == ("echo", "openvino", 0)
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": ["-1", "4"]}]
    assert config["instance_group"] == [{"name": "echo", "count": 2, "kind": "KIND_CPU"}]
    strings = (await client.get_model_config("string")).config
    assert strings.input[0].data_type == 13


async def test_the_repository_is_indexed(client: Any) -> None:
    index = await client.get_model_repository_index()
    assert {(m.name, m.version, m.state) for m in index.models} >= {("echo", "1", "READY"), ("pair", "1", "READY")}


async def test_tritons_client_infers(client: Any) -> None:
    given = [triton_input("x", ROW.reshape(1, 4), "FP32")]
    result = await client.infer("echo", given, request_id="seven")
    np.testing.assert_array_equal(result.as_numpy("y"), ROW.reshape(1, 4))
    response = result.get_response()
    assert (response.id, response.model_name, response.model_version) == ("seven", "echo", "1")


async def test_outputs_are_given_as_asked_for(client: Any) -> None:
    numbers = np.array([5, 6], np.int64)
    given = [triton_input("b", numbers, "INT64"), triton_input("a", ROW[:2], "FP32")]
    result = await client.infer("pair", given, outputs=[InferRequestedOutput("d")])
    np.testing.assert_array_equal(result.as_numpy("d"), numbers)
    assert [output.name for output in result.get_response().outputs] == ["d"]


async def test_an_output_has_the_name_that_it_was_asked_for_by(client: Any) -> None:
    given = [triton_input("x", ROW[:2], "FP32")]
    for name in ("y", "scores"):
        asked = await client.infer("alias", given, outputs=[InferRequestedOutput(name)])
        np.testing.assert_array_equal(asked.as_numpy(name), ROW[:2])
    unasked = await client.infer("alias", given)
    assert [output.name for output in unasked.get_response().outputs] == ["scores"]


async def test_strings_travel_as_bytes(client: Any) -> None:
    words = np.array([b"caf\xc3\xa9", b""], object)
    result = await client.infer("string", [triton_input("x", words, "BYTES")])
    assert result.as_numpy("y").tolist() == [b"caf\xc3\xa9", b""]


async def test_outputs_are_given_as_classes(client: Any) -> None:
    rows = np.array([[0.5, 4, 0, 1], [1, 1, 1, 2]], np.float32)
    outputs = [InferRequestedOutput("y", class_count=2)]
    result = await client.infer("echo", [triton_input("x", rows, "FP32")], outputs=outputs)
    assert result.as_numpy("y").tolist() == [[b"4.0:1", b"1.0:3"], [b"2.0:3", b"1.0:0"]]
    assert result.get_output("y").datatype == "BYTES"


@pytest.mark.parametrize(("type_name", "raw"), [("string", bytes(8)), ("boolean", bytes(2))])
async def test_what_are_no_numbers_are_no_classes(channel: grpc.aio.Channel, type_name: str, raw: bytes) -> None:
    message = pb.ModelInferRequest(model_name=type_name, raw_input_contents=[raw])
    message.inputs.add(name="x", datatype=BY_NAME[type_name].oip, shape=[2])
    message.outputs.add(name="y").parameters["classification"].int64_param = 1
    code, details = await failure(infer(channel, message))
    assert code == "INVALID_INPUT"
    assert f"output 'y' of model '{type_name}' is asked for as classes, but has element type {type_name}" in details


TYPED: list[tuple[str, dict[str, Any], bytes]] = [
    ("BOOL", {"bool_contents": [True, False]}, b"\1\0"),
    ("INT8", {"int_contents": [-128, 127]}, np.array([-128, 127], "i1").tobytes()),
    ("INT16", {"int_contents": [-300, 300]}, np.array([-300, 300], "<i2").tobytes()),
    ("INT32", {"int_contents": [-(2**31), 1]}, np.array([-(2**31), 1], "<i4").tobytes()),
    ("INT64", {"int64_contents": [-(2**63), 1]}, np.array([-(2**63), 1], "<i8").tobytes()),
    ("UINT8", {"uint_contents": [0, 255]}, b"\0\xff"),
    ("UINT16", {"uint_contents": [0, 65535]}, b"\0\0\xff\xff"),
    ("UINT32", {"uint_contents": [0, 2**32 - 1]}, b"\0\0\0\0\xff\xff\xff\xff"),
    ("UINT64", {"uint64_contents": [1, 2**64 - 1]}, np.array([1, 2**64 - 1], "<u8").tobytes()),
    ("FP32", {"fp32_contents": [0.5, float("inf")]}, np.array([0.5, np.inf], "<f4").tobytes()),
    ("FP64", {"fp64_contents": [0.1, -0.0]}, np.array([0.1, -0.0], "<f8").tobytes()),
    ("BYTES", {"bytes_contents": [b"a", b""]}, b"\1\0\0\0a\0\0\0\0"),
]


@pytest.mark.parametrize(("datatype", "contents", "raw"), TYPED, ids=[case[0] for case in TYPED])
async def test_typed_contents_are_the_same_tensor(
    channel: grpc.aio.Channel, datatype: str, contents: dict[str, Any], raw: bytes
) -> None:
    response = await infer(channel, typed(BY_OIP[datatype].name, datatype, **contents))
    assert list(response.raw_output_contents) == [raw]
    assert response.outputs[0].datatype == datatype


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
async def test_halves_travel_raw(channel: grpc.aio.Channel, datatype: str) -> None:
    message = typed(BY_OIP[datatype].name, datatype)
    message.inputs[0].ClearField("contents")
    message.raw_input_contents.append(b"\1\2\3\4")
    assert list((await infer(channel, message)).raw_output_contents) == [b"\1\2\3\4"]


def with_output_parameter(name: str, **value: Any) -> pb.ModelInferRequest:
    message = request()
    message.outputs.add(name="y").parameters[name].MergeFrom(pb.InferParameter(**value))
    return message


def with_parameter(name: str, **value: Any) -> pb.ModelInferRequest:
    return request(parameters={name: pb.InferParameter(**value)})


def in_shared_memory(**byte_size: int) -> pb.ModelInferRequest:
    message = request()
    message.inputs[0].parameters["shared_memory_region"].string_param = "r"
    for name, value in byte_size.items():
        message.inputs[0].parameters[name].int64_param = value
    return message


def with_contents_in_shared_memory() -> pb.ModelInferRequest:
    message = typed("echo", "FP32", (1, 4), fp32_contents=[1] * 4)
    message.inputs[0].parameters["shared_memory_region"].string_param = "r"
    message.inputs[0].parameters["shared_memory_byte_size"].int64_param = 16
    return message


BAD: list[tuple[pb.ModelInferRequest, str, str]] = [
    (request("nope"), "MODEL_NOT_FOUND", "Request for unknown model: 'nope' is not found"),
    (
        request(model_version="9"),
        "MODEL_NOT_FOUND",
        "Request for unknown model: 'echo' version 9 is not found",
    ),
    (
        request(model_version="x"),
        "INVALID_INPUT",
        "failed to get model version from specified version string 'x'",
    ),
    (request(raw_input_contents=[b""]), "INVALID_INPUT", "expected 1 entries in raw_input_contents"),
    (
        pb.ModelInferRequest(
            model_name="echo", inputs=typed("echo", "FP32", fp32_contents=[1]).inputs, raw_input_contents=[b""]
        ),
        "INVALID_INPUT",
        "contents field must not be specified when using raw_input_contents for 'x' for model 'echo'",
    ),
    (
        typed("echo", "FP32", (1, 4), fp32_contents=[1, 2, 3]),
        "INVALID_INPUT",
        "has 3 elements, expected 4 for FP32[1,4]",
    ),
    (
        pb.ModelInferRequest(
            model_name="pair",
            inputs=[
                pb.ModelInferRequest.InferInputTensor(name="a", datatype="FP32", shape=(2,)),
                pb.ModelInferRequest.InferInputTensor(
                    name="b", datatype="INT32", shape=(2,), contents=pb.InferTensorContents(int_contents=[1, 2])
                ),
            ],
            raw_input_contents=[bytes(8)],
        ),
        "INVALID_INPUT",
        "contents field must not be specified when using raw_input_contents for 'b' for model 'pair'",
    ),
    (
        typed("echo", "FP32", (1, 4), int_contents=[1] * 4),
        "INVALID_INPUT",
        "input 'x' of model 'echo' has elements in int_contents, expected them in fp32_contents alone for FP32",
    ),
    (
        typed("echo", "FP32", (1, 4), fp32_contents=[1] * 4, fp64_contents=[2]),
        "INVALID_INPUT",
        "has elements in fp32_contents and fp64_contents, expected them in fp32_contents alone for FP32",
    ),
    (
        typed("string", "BYTES", int_contents=[1, 2]),
        "INVALID_INPUT",
        "has elements in int_contents, expected them in bytes_contents alone for BYTES",
    ),
    (typed("echo", "FP32", (1, 4)), "INVALID_INPUT", "has 0 elements, expected 4 for FP32[1,4]"),
    (typed("echo", "FP32", (-1, -4), fp32_contents=[1] * 4), "INVALID_INPUT", "has shape [-1,-4], expected dimensions"),
    (typed("echo", "FP32", (2**63 - 1,) * 300, fp32_contents=[1]), "INVALID_INPUT", "has 300 dimensions, expected at"),
    (typed("i8", "INT8", int_contents=[1, 128]), "INVALID_INPUT", "has the element 128, which no INT8 can be"),
    (typed("u16", "UINT16", uint_contents=[1, 65536]), "INVALID_INPUT", "the element 65536, which no UINT16"),
    (typed("f16", "FP16", fp32_contents=[1, 1]), "INVALID_INPUT", "has no field in contents; send it in raw"),
    (typed("string", "BYTES", bytes_contents=[b"a"]), "INVALID_INPUT", "has 1 elements, expected 2 for BYTES[2]"),
    (typed("echo", "FLOAT", fp32_contents=[1]), "INVALID_INPUT", "has datatype 'FLOAT', expected one of BOOL"),
    (typed("string", "STRING", bytes_contents=[b"a"] * 2), "INVALID_INPUT", "UINT64 BYTES; did you mean BYTES?"),
    (typed("u4", "U4", uint_contents=[1]), "INVALID_INPUT", "cannot carry; use inferwire.v1"),
    (typed("echo", "INT32", (1, 4), int_contents=[1] * 4), "INVALID_INPUT", "type i32 (INT32), expected f32 (FP32)"),
    (
        pb.ModelInferRequest(model_name="pair", inputs=[request().inputs[0]], raw_input_contents=[b""]),
        "INVALID_INPUT",
        "input 'x' of model 'pair' is not known, expected one of 'a', 'b'",
    ),
    (pb.ModelInferRequest(model_name="echo"), "INVALID_INPUT", "input 'x' of model 'echo' is missing"),
    (
        pb.ModelInferRequest(
            model_name="echo", inputs=[request().inputs[0]] * 2, raw_input_contents=[ROW.tobytes()] * 2
        ),
        "INVALID_INPUT",
        "is given twice",
    ),
    (request(outputs=[{"name": "z"}]), "INVALID_INPUT", "output 'z' of model 'echo' is not known"),
    (request(outputs=[{"name": "y"}, {"name": "y"}]), "INVALID_INPUT", "is asked for twice"),
    (
        with_output_parameter("classification", int64_param=-1),
        "INVALID_INPUT",
        "parameter 'classification' of output 'y' is -1, expected a whole number from 0 on",
    ),
    (
        with_output_parameter("classification", bool_param=True),
        "INVALID_INPUT",
        "'classification' of output 'y' is True",
    ),
    (with_output_parameter("classification", double_param=2), "INVALID_INPUT", "'classification' of output 'y' is 2.0"),
    (
        with_output_parameter("shared_memory_region", string_param="r"),
        "INVALID_INPUT",
        "output 'y' is in shared memory region 'r', but has no parameter 'shared_memory_byte_size'",
    ),
    (in_shared_memory(), "INVALID_INPUT", "input 'x' is in shared memory region 'r', but has no parameter"),
    (
        in_shared_memory(shared_memory_byte_size=16),
        "INVALID_INPUT",
        "expected 0 entries in raw_input_contents for model 'echo', got 1",
    ),
    (with_contents_in_shared_memory(), "INVALID_INPUT", "input 'x' has both 'contents' and 'shared_memory_region'"),
    (with_parameter("triton_own", bool_param=True), "INVALID_INPUT", "'triton_own' starts with 'triton_'"),
    (with_parameter("sequence_id", bool_param=True), "INVALID_INPUT", "'sequence_id' is True, expected a whole number"),
    (with_parameter("sequence_id", double_param=1), "INVALID_INPUT", "'sequence_id' is 1.0, expected a whole number"),
    (with_parameter("sequence_start", bool_param=True), "INVALID_INPUT", "a non-zero or non-empty correlation ID"),
    (with_parameter("sequence_end", int64_param=1), "INVALID_INPUT", "'sequence_end' is 1, expected true or false"),
    (with_parameter("priority", string_param="high"), "INVALID_INPUT", "'priority' is 'high', expected a whole number"),
    (with_parameter("timeout", int64_param=-1), "INVALID_INPUT", "parameter 'timeout' is -1"),
]


@pytest.mark.parametrize(("bad", "code", "sentence"), BAD, ids=[f"{i}-{case[1]}" for i, case in enumerate(BAD)])
async def test_bad_input_between_good_costs_no_slot(
    channel: grpc.aio.Channel, load: Callable[[], Any], bad: pb.ModelInferRequest, code: str, sentence: str
) -> None:
    before = await load()
    assert list((await infer(channel, request())).raw_output_contents) == [ROW.tobytes()]
    found, details = await failure(infer(channel, bad))
    assert found == code
    assert sentence in details
    assert list((await infer(channel, request())).raw_output_contents) == [ROW.tobytes()]
    assert await load() == before


async def test_parameters_nobody_knows_are_passed_over(channel: grpc.aio.Channel) -> None:
    message = with_parameter("mine", double_param=0.5)
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    message.parameters["priority"].uint64_param = 1
    message.parameters["timeout"].int64_param = 10_000_000
    message.parameters["empty"].SetInParent()
    assert list((await infer(channel, message)).raw_output_contents) == [ROW.tobytes()]


async def test_a_timeout_is_in_microseconds(channel: grpc.aio.Channel) -> None:
    message = request("slow", parameters={"timeout": pb.InferParameter(int64_param=1000)})
    code, details = await failure(infer(channel, message))
    assert code == "DEADLINE_EXCEEDED"
    assert details.endswith(": parameter 'timeout' is 1000 microseconds")


async def test_priority_1_goes_before_2_and_both_before_none(channel: grpc.aio.Channel, models: Models) -> None:
    order: list[float] = []

    def note(inputs: Sequence[Any]) -> Any:
        order.append(float(np.frombuffer(inputs[0].data, np.float32)[0]))
        return tuple(inputs)

    models["slow"].compute = note
    first = asyncio.ensure_future(infer(channel, request("slow")))
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    stream: Any = channel.stream_stream(STREAM)()
    for priority in (0, 2, 1):
        message = request("slow", parameters={"priority": pb.InferParameter(uint64_param=priority)})
        message.raw_input_contents[0] = np.full(4, 10 + priority, np.float32).tobytes()
        await stream.write(message.SerializeToString())
    await stream.write(pb.ModelInferRequest(model_name="nope").SerializeToString())
    await stream.done_writing()
    answers = asyncio.ensure_future(read_all(stream))
    await infer(channel, request())
    models["slow"].gate.open()
    await first
    assert len(await answers) == 4
    assert order == [0.0, 11.0, 12.0, 10.0]


async def test_a_deadline_frees_the_slot(channel: grpc.aio.Channel, models: Models) -> None:
    await channel.channel_ready()
    call = asyncio.ensure_future(infer(channel, request("slow"), timeout=3))
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)


async def test_an_output_without_a_datatype_is_refused_before_anything_runs(
    channel: grpc.aio.Channel, models: Models
) -> None:
    def run(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        runs.append(None)
        return Tensor(BY_NAME["u4"], (2,), b"\x12"), inputs[0]

    runs: list[None] = []
    models["mixed"].compute = run
    message = typed("mixed", "FP32", fp32_contents=[1, 2])
    code, details = await failure(infer(channel, message))
    assert code == "INVALID_INPUT"
    assert "output 'y' of model 'mixed' has element type u4, which the Open Inference Protocol cannot carry" in details
    assert runs == []
    message.outputs.add(name="z")
    assert [output.name for output in (await infer(channel, message)).outputs] == ["z"]
    assert runs == [None]


async def read_all(stream: Any) -> list[pb.ModelStreamInferResponse]:
    """Read a stream to its end."""
    found: list[pb.ModelStreamInferResponse] = []
    while (data := await stream.read()) is not grpc.aio.EOF:
        found.append(pb.ModelStreamInferResponse.FromString(data))
    return found


async def test_a_stream_answers_in_order_whatever_ends_first(channel: grpc.aio.Channel, models: Models) -> None:
    stream: Any = channel.stream_stream(STREAM)()
    for message in (request("slow", id="1"), request("nope", id="2"), request("nope"), request(id="3")):
        await stream.write(message.SerializeToString())
    await stream.done_writing()
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    models["slow"].gate.open()
    answers = await read_all(stream)
    assert [answer.infer_response.id for answer in answers] == ["1", "2", "", "3"]
    unknown = "Request for unknown model: 'nope' is not found"
    assert [answer.error_message for answer in answers] == ["", f"[request id: 2] {unknown}", unknown, ""]
    assert [answer.infer_response.parameters["triton_final_response"].bool_param for answer in answers] == [True] * 4
    assert list(answers[3].infer_response.raw_output_contents) == [ROW.tobytes()]


async def test_a_stream_whose_client_goes_leaves_nothing_running(channel: grpc.aio.Channel, models: Models) -> None:
    stream: Any = channel.stream_stream(STREAM)()
    await stream.write(request("slow").SerializeToString())
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    stream.cancel()
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)


async def test_bytes_that_are_no_request_end_the_stream(channel: grpc.aio.Channel) -> None:
    stream: Any = channel.stream_stream(STREAM)()
    await stream.write(b"\xff\xff")
    assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "inference.ModelInferRequest" in await stream.details()


async def test_tritons_client_streams(client: Any) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for name in ("echo", "nope", "echo"):
            yield {"model_name": name, "inputs": [triton_input("x", ROW.reshape(1, 4), "FP32")]}

    outcomes = [outcome async for outcome in client.stream_infer(requests())]
    np.testing.assert_array_equal(outcomes[2][0].as_numpy("y"), ROW.reshape(1, 4))
    assert isinstance(outcomes[1][1], InferenceServerException)
    assert "'nope' is not found" in str(outcomes[1][1])
