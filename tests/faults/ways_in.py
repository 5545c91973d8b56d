"""Every way to have a row of `echo` computed, by raw messages: each gives "OK", or the name of the error's code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import httpx
import numpy as np

from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip

ROW = np.arange(4, dtype=np.float32)
V1 = "/inferwire.v1.InferenceService"
OIP = "/inference.GRPCInferenceService"
OK = "OK"

Way = Callable[[grpc.aio.Channel, httpx.AsyncClient, int], Awaitable[str]]
"""Takes a channel, an HTTP client and a time limit in microseconds, 0 for none."""


def execution(timeout_us: int, *ids: int) -> pb.Execution:
    header = types_pb2.TensorHeader(name="x", element_type=types_pb2.ELEMENT_TYPE_F32, shape=[1, 4])
    scheduling = pb.Scheduling(timeout_us=timeout_us)
    return pb.Execution(ids=ids, target=pb.Target(served="echo"), inputs=[header], scheduling=scheduling)


def oip_request(timeout_us: int) -> oip.ModelInferRequest:
    message = oip.ModelInferRequest(model_name="echo", raw_input_contents=[ROW.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    if timeout_us:
        message.parameters["timeout"].int64_param = timeout_us
    return message


def json_request(timeout_us: int) -> dict[str, Any]:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": ROW.tolist()}
    return {"inputs": [tensor]} | ({"parameters": {"timeout": timeout_us}} if timeout_us else {})


async def unary(channel: grpc.aio.Channel, path: str, message: Any) -> tuple[str, bytes]:
    call: Any = channel.unary_unary(path)
    try:
        return OK, await call(message.SerializeToString())
    except grpc.aio.AioRpcError as error:
        return str(dict(iter(error.trailing_metadata() or ())).get(CODE_METADATA, error.code())), b""


def code_name(error: types_pb2.Error) -> str:
    return types_pb2.ErrorCode.Name(error.code).removeprefix("ERROR_CODE_")


async def v1_infer(channel: grpc.aio.Channel, http: httpx.AsyncClient, timeout_us: int) -> str:
    said, answer = await unary(
        channel, f"{V1}/Infer", pb.InferRequest(execution=execution(timeout_us), raw=[ROW.tobytes()])
    )
    assert said != OK or list(pb.InferResponse.FromString(answer).raw) == [ROW.tobytes()]
    return said


async def v1_session(channel: grpc.aio.Channel, http: httpx.AsyncClient, timeout_us: int) -> str:
    stream: Any = channel.stream_stream(f"{V1}/Session")()
    hello, work = pb.SessionHello(client="test"), execution(timeout_us, 7)
    await stream.write(pb.SessionRequest(hello=hello, executions=[work], raw=[ROW.tobytes()]).SerializeToString())
    while True:
        data = await stream.read()
        if data is grpc.aio.EOF:
            return str(dict(iter(await stream.trailing_metadata())).get(CODE_METADATA, await stream.code()))
        message = pb.SessionResponse.FromString(data)
        for result in message.results:
            await stream.done_writing()
            with suppress(grpc.aio.AioRpcError):  # raised if the server is shutting down
                assert await stream.read() is grpc.aio.EOF
            assert result.HasField("error") or list(message.raw) == [ROW.tobytes()]
            return code_name(result.error) if result.HasField("error") else OK


async def v1_session_of_three(channel: grpc.aio.Channel, http: httpx.AsyncClient, timeout_us: int) -> str:
    """Have three rows computed, by one message of a session."""
    stream: Any = channel.stream_stream(f"{V1}/Session")()
    hello, works = pb.SessionHello(client="test"), [execution(timeout_us, number) for number in (7, 8, 9)]
    await stream.write(pb.SessionRequest(hello=hello, executions=works, raw=3 * [ROW.tobytes()]).SerializeToString())
    answered: list[int] = []
    while len(answered) < len(works):
        message = pb.SessionResponse.FromString(await stream.read())
        answered += [number for result in message.results if not result.HasField("error") for number in result.ids]
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    return OK


async def v1_job(channel: grpc.aio.Channel, http: httpx.AsyncClient, timeout_us: int) -> str:
    request = pb.StartAsyncRequest(execution=execution(timeout_us), raw=[ROW.tobytes()])
    said, answer = await unary(channel, f"{V1}/StartAsync", request)
    if said != OK:
        return said
    job_id = pb.StartAsyncResponse.FromString(answer).job_id
    await unary(channel, f"{V1}/Wait", pb.WaitRequest(job_id=job_id, timeout_us=30_000_000))
    return (await unary(channel, f"{V1}/GetResult", pb.GetResultRequest(job_id=job_id, release=True)))[0]


async def oip_infer(channel: grpc.aio.Channel, http: httpx.AsyncClient, timeout_us: int) -> str:
    said, answer = await unary(channel, f"{OIP}/ModelInfer", oip_request(timeout_us))
    assert said != OK or list(oip.ModelInferResponse.FromString(answer).raw_output_contents) == [ROW.tobytes()]
    return said


async def oip_stream(channel: grpc.aio.Channel, http: httpx.AsyncClient, timeout_us: int) -> str:
    stream: Any = channel.stream_stream(f"{OIP}/ModelStreamInfer")()
    await stream.write(oip_request(timeout_us).SerializeToString())
    data = await stream.read()
    if data is grpc.aio.EOF:
        return str(dict(iter(await stream.trailing_metadata())).get(CODE_METADATA, await stream.code()))
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    return oip.ModelStreamInferResponse.FromString(data).error_message or OK


async def rest_infer(channel: grpc.aio.Channel, http: httpx.AsyncClient, timeout_us: int) -> str:
    answer = await http.post("/v2/models/echo/infer", json=json_request(timeout_us))
    return OK if answer.is_success else answer.json()["code"]


async def rest_job(channel: grpc.aio.Channel, http: httpx.AsyncClient, timeout_us: int) -> str:
    started = await http.post("/inferwire/v1/models/echo/jobs", json=json_request(timeout_us))
    if not started.is_success:
        return started.json()["code"]
    path = started.headers["location"]
    await http.get(path, params={"wait_s": "30"})
    answer = await http.get(f"{path}/result", params={"release": "true"})
    return OK if answer.is_success else answer.json()["code"]


WAYS: dict[str, Way] = {
    way.__name__: way for way in (v1_infer, v1_session, v1_job, oip_infer, oip_stream, rest_infer, rest_job)
}
SAY_CODES = {name: way for name, way in WAYS.items() if name != "oip_stream"}
"""The ways whose errors have a code: the protocol's stream has only a sentence."""
