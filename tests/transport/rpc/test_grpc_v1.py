"""The single calls of inferwire.v1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from tests.transport.open_session import Metadata

from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2, models_pb2, types_pb2
from inferwire_server.core.callers import of_connection
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.service import Services
from inferwire_server.transport.rpc.grpc_server import GrpcOptions
from inferwire_server.transport.rpc.inference_calls import InferenceCalls
from inferwire_server.transport.session.socket_sessions import SocketSessions

Models = dict[str, FakeModel]
ROW = np.arange(4, dtype=np.float32).tobytes()


@pytest.fixture
def models() -> Models:
    slow = FakeModel(echo_spec("slow"), gate=Gate(is_open=False), optimal_slots=1)
    return {"echo": FakeModel(echo_spec("echo")), "slow": slow, "model": FakeModel(echo_spec("uploaded"))}


def _serialize(message: Any) -> bytes:
    return message.SerializeToString()


class Client:
    """Makes unary calls by name."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def __call__(self, method: str, request: Any, **options: Any) -> Any:
        """Call "Service.Method"."""
        service, name = method.split(".")
        files = (devices_pb2, inference_pb2, models_pb2)
        found = next(f.DESCRIPTOR.services_by_name[service] for f in files if service in f.DESCRIPTOR.services_by_name)
        answer = found.methods_by_name[name].output_type._concrete_class
        kind = self._channel.stream_unary if isinstance(request, list) else self._channel.unary_unary
        call: Any = kind(f"/inferwire.v1.{service}/{name}", _serialize, answer.FromString)
        return call(iter(request) if isinstance(request, list) else request, **options)


@pytest.fixture
def client(channel: grpc.aio.Channel) -> Client:
    return Client(channel)


def execution(model: str = "echo", shape: tuple[int, ...] = (1, 4)) -> inference_pb2.Execution:
    header = types_pb2.TensorHeader(element_type=types_pb2.ELEMENT_TYPE_F32, shape=shape)
    return inference_pb2.Execution(target=inference_pb2.Target(served=model), inputs=[header])


def infer_request(model: str = "echo", raw: bytes = ROW, **changes: Any) -> inference_pb2.InferRequest:
    return inference_pb2.InferRequest(execution=execution(model, **changes), raw=[raw])


async def failure(call: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return str(dict(iter(raised.value.trailing_metadata())).get(CODE_METADATA)), str(raised.value.details())


async def test_infer_answers_with_outputs_and_timings(client: Client) -> None:
    response = await client("InferenceService.Infer", infer_request())
    assert list(response.raw) == [ROW]
    assert response.result.outputs[0].shape == [1, 4]
    assert response.result.timings.total_us > 0


async def test_a_large_tensor_comes_back_whole(client: Client) -> None:
    large = np.random.default_rng(0).random((5000, 4), np.float32).tobytes()
    response = await client("InferenceService.Infer", infer_request(raw=large, shape=(5000, 4)))
    assert list(response.raw) == [large]


async def test_a_deadline_cancels_the_inference(client: Client, models: Models) -> None:
    gate = models["slow"].gate
    call = client("InferenceService.Infer", infer_request("slow"), timeout=3)
    await asyncio.to_thread(gate.wait_held, 1)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.to_thread(gate.wait_held, 0)
    gate.open()
    assert list((await client("InferenceService.Infer", infer_request("slow"))).raw) == [ROW]


async def test_a_caller_that_goes_cancels_its_inference(client: Client, models: Models) -> None:
    call = client("InferenceService.Infer", infer_request("slow"))
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    call.cancel()
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)


async def test_a_stack_is_for_the_stream(client: Client) -> None:
    request = infer_request()
    request.execution.ids.extend([1, 2])
    code, details = await failure(client("InferenceService.Infer", request))
    assert (code, details) == ("INVALID_INPUT", "the execution is a stack of 2, expected one: stacks are for Session")


async def test_an_answer_over_the_limit_is_refused(services: Services, sockets: SocketSessions) -> None:
    calls = InferenceCalls(services, sockets, max_message_bytes=20)
    context: Any = SimpleNamespace(metadata=(), caller=of_connection(), outlet=None)
    with pytest.raises(ServingError, match="at most 20 fit in a message"):
        await calls.infer(infer_request().SerializeToString(), context)


async def test_a_job_is_started_waited_for_and_collected(client: Client, models: Models) -> None:
    request = inference_pb2.StartAsyncRequest(execution=execution("slow"), raw=[ROW])
    job_id = (await client("InferenceService.StartAsync", request)).job_id
    wait = inference_pb2.WaitRequest(job_id=job_id)
    assert (await client("InferenceService.Wait", wait)).state == inference_pb2.JOB_STATE_RUNNING
    result = inference_pb2.GetResultRequest(job_id=job_id, release=True)
    assert (await failure(client("InferenceService.GetResult", result)))[0] == "INVALID_INPUT"
    models["slow"].gate.open()
    wait.timeout_us = 2**64 - 1
    assert (await client("InferenceService.Wait", wait)).state == inference_pb2.JOB_STATE_FINISHED
    assert list((await client("InferenceService.GetResult", result)).raw) == [ROW]
    assert (await failure(client("InferenceService.GetResult", result)))[0] == "JOB_NOT_FOUND"


async def test_a_job_whose_answer_is_refused_is_not_released(services: Services, sockets: SocketSessions) -> None:
    narrow, wide = (InferenceCalls(services, sockets, max_message_bytes=limit) for limit in (20, 1000))
    context: Any = SimpleNamespace(metadata=(), caller=of_connection())
    start = inference_pb2.StartAsyncRequest(execution=execution(), raw=[ROW])
    started = await wide.start_async(start.SerializeToString(), context)
    job_id = inference_pb2.StartAsyncResponse.FromString(started).job_id
    await wide.wait(inference_pb2.WaitRequest(job_id=job_id, timeout_us=10_000_000), context)
    wanted = inference_pb2.GetResultRequest(job_id=job_id, release=True).SerializeToString()
    with pytest.raises(ServingError, match="at most 20 fit in a message"):
        await narrow.get_result(wanted, context)
    collected = inference_pb2.GetResultResponse.FromString(await wide.get_result(wanted, context))
    assert list(collected.raw) == [ROW]
    with pytest.raises(ServingError, match="is not known"):
        await wide.get_result(wanted, context)


async def test_a_job_is_cancelled(client: Client) -> None:
    request = inference_pb2.StartAsyncRequest(execution=execution("slow"), raw=[ROW])
    job_id = (await client("InferenceService.StartAsync", request)).job_id
    cancelled = await client("InferenceService.Cancel", inference_pb2.CancelRequest(job_id=job_id))
    assert cancelled.state == inference_pb2.JOB_STATE_CANCELLED
    waited = await client("InferenceService.Wait", inference_pb2.WaitRequest(job_id=job_id))
    assert waited.error.code == types_pb2.ERROR_CODE_CANCELLED
    result = inference_pb2.GetResultRequest(job_id=job_id)
    assert (await failure(client("InferenceService.GetResult", result)))[0] == "CANCELLED"


BAD: list[tuple[Any, str, str]] = [
    (infer_request("nope"), "MODEL_NOT_FOUND", "'nope' is not found"),
    (infer_request(shape=(1, 5)), "INVALID_INPUT", "has shape [1,5], expected [?,4]"),
    (infer_request(shape=(4,)), "INVALID_INPUT", "has shape [4], expected [?,4]"),
    (infer_request(shape=(-1, 4)), "INVALID_INPUT", "has shape [-1,4]"),
    (infer_request(raw=ROW[:3]), "INVALID_INPUT", "has 3 bytes, expected 16"),
    (
        inference_pb2.InferRequest(execution=execution()),
        "INVALID_INPUT",
        "has 1 inputs, but the message has bytes of 0",
    ),
    (inference_pb2.InferRequest(), "INVALID_INPUT", "names no model"),
]


@pytest.mark.parametrize(("bad", "code", "sentence"), BAD, ids=[case[2][-20:] for case in BAD])
async def test_bad_input_between_good_costs_no_slot(
    client: Client, load: Callable[[], Any], bad: Any, code: str, sentence: str
) -> None:
    before = await load()
    assert list((await client("InferenceService.Infer", infer_request())).raw) == [ROW]
    found, details = await failure(client("InferenceService.Infer", bad))
    assert found == code
    assert sentence in details
    assert list((await client("InferenceService.Infer", infer_request())).raw) == [ROW]
    assert await load() == before


MUCH = b"\xa2\x06\x80\x80\x80\x04" + bytes(8 << 20)
"""A field that no message knows, of 8 MiB."""


@pytest.mark.parametrize("method", ["Infer", "StartAsync"])
@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            inference_pb2.InferRequest(execution=execution()).SerializeToString() + MUCH,
            "beside their tensors, expected",
        ),
        (
            inference_pb2.InferRequest(
                execution=inference_pb2.Execution(inputs=[types_pb2.TensorHeader()] * 4097)
            ).SerializeToString(),
            "there are 4097 inputs, expected at most 4096",
        ),
        (
            inference_pb2.InferRequest(
                execution=inference_pb2.Execution(target=inference_pb2.Target(served="echo"), outputs=range(4097))
            ).SerializeToString(),
            "there are 4097 outputs, expected at most 4096",
        ),
    ],
    ids=["bytes", "inputs", "outputs"],
)
async def test_what_no_execution_has_is_refused_before_it_is_read(
    channel: grpc.aio.Channel, method: str, data: bytes, sentence: str
) -> None:
    call: Any = channel.unary_unary(f"/inferwire.v1.InferenceService/{method}")(data)
    code, details = await failure(call)
    assert code == "INVALID_INPUT"
    assert sentence in details


@pytest.mark.parametrize("method", ["StateService/SetStates", "TensorService/PutTensor"])
async def test_a_request_with_tensors_has_little_beside_them(channel: grpc.aio.Channel, method: str) -> None:
    call: Any = channel.unary_unary(f"/inferwire.v1.{method}")(MUCH)
    code, details = await failure(call)
    assert code == "INVALID_INPUT"
    assert details == (
        f"the {len(MUCH)} bytes received have {len(MUCH)} beside their tensors, expected at most 8388608"
    )


@pytest.mark.parametrize(
    "method",
    [
        "inferwire.v1.ModelService/HasBlobs",
        "inferwire.v1.InferenceService/GetResult",
        "inferwire.v1.StateService/GetStates",
        "inferwire.v1.TensorService/GetTensor",
        "inference.GRPCInferenceService/ServerLive",
        "grpc.health.v1.Health/Check",
    ],
)
async def test_a_request_without_tensors_is_never_large(channel: grpc.aio.Channel, method: str) -> None:
    call: Any = channel.unary_unary(f"/{method}")(MUCH)
    code, details = await failure(call)
    assert (code, details) == (
        "TOO_LARGE",
        f"the message has {len(MUCH)} bytes, expected at most 8388608 in a call without tensors",
    )


async def test_malformed_bytes_are_named(channel: grpc.aio.Channel) -> None:
    call: Any = channel.unary_unary("/inferwire.v1.InferenceService/Infer")(b"\xff\xff\xff")
    code, details = await failure(call)
    assert (code, details) == (
        "INVALID_INPUT",
        "the 3 bytes received are not a message of type inferwire.v1.InferRequest",
    )


async def test_a_model_is_described(client: Client) -> None:
    model = (await client("ModelService.GetModel", models_pb2.GetModelRequest(name="echo"))).model
    assert (model.name, model.version, model.optimal_number_of_infer_requests) == ("echo", "1", 2)
    assert model.signature == echo_spec("echo").signature
    (port,) = model.inputs
    assert (list(port.names), port.oip_name, port.node_type) == (["x"], "x", "Parameter")
    assert [(d.min, d.max) for d in port.partial_shape.dimensions] == [(0, -1), (4, 4)]


async def test_models_and_devices_are_listed(client: Client) -> None:
    listed = await client("ModelService.ListModels", models_pb2.ListModelsRequest())
    assert [(m.name, m.state) for m in listed.models] == [
        (name, models_pb2.MODEL_STATE_READY) for name in ("echo", "model", "slow")
    ]
    (device,) = (await client("DeviceService.ListDevices", devices_pb2.ListDevicesRequest())).devices
    assert (device.name, device.full_name, device.queue_capacity) == ("CPU", "FULL_DEVICE_NAME of CPU", 8192)
    read = await client("DeviceService.GetProperty", devices_pb2.GetPropertyRequest(device="CPU", name="P"))
    assert read.value.string_value == "P of CPU"
    versions = await client("DeviceService.GetVersions", devices_pb2.GetVersionsRequest(device="CPU"))
    assert versions.versions["CPU"].description == "fake"


async def test_a_model_is_uploaded_compiled_run_and_released(client: Client, session: Metadata) -> None:
    content = b"model" * 1000
    digest = sha256(content).digest()
    header = models_pb2.UploadRequest(header=models_pb2.BlobHeader(sha256=digest, byte_size=5000), chunk=content[:9])
    has = models_pb2.HasBlobsRequest(sha256=[digest])
    assert list((await client("ModelService.HasBlobs", has, metadata=session)).present) == [False]
    await client("ModelService.Upload", [header, models_pb2.UploadRequest(chunk=content[9:])], metadata=session)
    assert list((await client("ModelService.HasBlobs", has, metadata=session)).present) == [True]
    source = models_pb2.ModelSource(model_sha256=digest, suffix=".onnx")
    read = await client("ModelService.Read", models_pb2.ReadRequest(source=source), metadata=session)
    assert read.model.name == "uploaded"
    compiled = await client("ModelService.Compile", models_pb2.CompileRequest(source=source), metadata=session)
    request = infer_request()
    request.execution.target.CopyFrom(inference_pb2.Target(compiled=compiled.compiled_id))
    assert list((await client("InferenceService.Infer", request, metadata=session)).raw) == [ROW]
    assert (await failure(client("InferenceService.Infer", request)))[0] == "MODEL_NOT_FOUND"
    release = models_pb2.ReleaseRequest(compiled_ids=[compiled.compiled_id], sha256=[digest])
    await client("ModelService.Release", release, metadata=session)
    assert (await failure(client("InferenceService.Infer", request, metadata=session)))[0] == "MODEL_NOT_FOUND"


async def test_calls_that_need_a_session_say_so(client: Client, channel: grpc.aio.Channel) -> None:
    code, details = await failure(client("ModelService.Release", models_pb2.ReleaseRequest()))
    assert code == "INVALID_INPUT"
    assert "no metadata entry inferwire-session" in details
    gone = (("inferwire-session", "gone"),)
    assert (await failure(client("ModelService.Release", models_pb2.ReleaseRequest(), metadata=gone)))[0] == (
        "SESSION_EXPIRED"
    )


async def test_bad_uploads_and_sources_are_named(client: Client, session: Metadata) -> None:
    _, details = await failure(client("ModelService.Upload", [], metadata=session))
    assert details == "the upload's first message has no header, expected the blob's hash and size"
    header = models_pb2.UploadRequest(header=models_pb2.BlobHeader(sha256=bytes(32), byte_size=5))
    _, details = await failure(client("ModelService.Upload", [header, header], metadata=session))
    assert "second header" in details
    dimension = types_pb2.Dimension(min=3, max=2)
    source = models_pb2.ModelSource(reshape={"x": types_pb2.PartialShape(dimensions=[dimension])})
    _, details = await failure(client("ModelService.Read", models_pb2.ReadRequest(source=source), metadata=session))
    assert "port 'x' is to have a dimension of 3 to 2" in details


def test_the_default_port_is_the_documented_one() -> None:
    assert (GrpcOptions().host, GrpcOptions().port) == ("127.0.0.1", 8001)
