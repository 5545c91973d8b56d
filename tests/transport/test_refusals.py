"""Requests that are answered with an error: by interface and code where it is no job's, else among the jobs alone."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from tests.plain_http import plain_client

from inferwire_proto import raw_fields
from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import inference_pb2, models_pb2, types_pb2
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip
from inferwire_server.settings import Settings

Models = dict[str, FakeModel]
OIP = "inference.GRPCInferenceService"
V1 = "inferwire.v1.InferenceService"
ROW = np.arange(4, dtype=np.float32)


def fail(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Fail as a job may that was admitted: with a code that callers are refused by, too."""
    raise ServingError(Code.INVALID_INPUT, "failed in its slot")


def raise_bug(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Give an output that is none, so that whoever writes it raises."""
    return (inputs[0]._replace(data=b"12345"),)


@pytest.fixture
def models() -> Models:
    return {
        "echo": FakeModel(echo_spec("echo")),
        "fail": FakeModel(echo_spec("fail"), compute=fail),
        "bug": FakeModel(echo_spec("bug"), compute=raise_bug),
        "held": FakeModel(echo_spec("held"), gate=Gate(is_open=False), optimal_slots=1),
    }


@pytest.fixture
def allows_control() -> bool:
    return False


@pytest.fixture
def settings(settings: Settings, allows_control: bool) -> Settings:
    return replace(settings, queue_capacity=1, allow_model_control=allows_control)


@dataclass
class Counts:
    """Reads what has been counted since the last time, at the port that operators read it at."""

    client: httpx.AsyncClient
    seen: Counter[tuple[str, ...]] = field(default_factory=Counter)

    async def new(self) -> dict[tuple[str, ...], int]:
        """Give refused requests by interface and code, and jobs by model and outcome."""
        now: Counter[tuple[str, ...]] = Counter()
        for family in text_string_to_metric_families((await self.client.get("/metrics")).text):
            for sample in family.samples:
                if sample.name == "inferwire_refused_requests_total":
                    assert set(sample.labels) == {"interface", "code"}
                    now[sample.labels["interface"], sample.labels["code"]] += int(sample.value)
                if sample.name == "inferwire_jobs_total":
                    now[sample.labels["model"], sample.labels["outcome"]] += int(sample.value)
        found = dict(now - self.seen)
        self.seen = now
        return found


@pytest_asyncio.fixture
async def http(rest_address: str) -> AsyncIterator[httpx.AsyncClient]:
    async with plain_client(base_url=f"http://{rest_address}", timeout=20) as client:
        yield client


@pytest.fixture
def counts(http: httpx.AsyncClient) -> Counts:
    return Counts(http)


Infer = Callable[..., Awaitable[None]]
"""Asks for an inference of a model with a row of so many columns, and does not mind what becomes of it."""


def oip_request(model: str, columns: int) -> oip.ModelInferRequest:
    request = oip.ModelInferRequest(model_name=model, raw_input_contents=[np.ones(columns, np.float32).tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=[1, columns])
    return request


def execution(model: str, columns: int, *ids: int) -> inference_pb2.Execution:
    header = types_pb2.TensorHeader(name="x", element_type=types_pb2.ELEMENT_TYPE_F32, shape=[1, columns])
    return inference_pb2.Execution(ids=ids, target=inference_pb2.Target(served=model), inputs=[header])


@pytest.fixture
def rest(http: httpx.AsyncClient) -> Infer:
    async def infer(model: str, columns: int = 4) -> None:
        given = {"name": "x", "datatype": "FP32", "shape": [1, columns], "data": [1.0] * columns}
        await http.post(f"/v2/models/{model}/infer", json={"inputs": [given]})

    return infer


@pytest.fixture
def over_oip(channel: grpc.aio.Channel) -> Infer:
    async def infer(model: str, columns: int = 4) -> None:
        call: Any = channel.unary_unary(f"/{OIP}/ModelInfer")
        with suppress(grpc.aio.AioRpcError):
            await call(oip_request(model, columns).SerializeToString())

    return infer


@pytest.fixture
def over_oip_stream(channel: grpc.aio.Channel) -> Infer:
    async def infer(model: str, columns: int = 4) -> None:
        stream: Any = channel.stream_stream(f"/{OIP}/ModelStreamInfer")()
        await stream.write(oip_request(model, columns).SerializeToString())
        await stream.read()
        stream.cancel()

    return infer


@pytest.fixture
def over_v1(channel: grpc.aio.Channel) -> Infer:
    async def infer(model: str, columns: int = 4) -> None:
        call: Any = channel.unary_unary(f"/{V1}/Infer")
        raw = [np.ones(columns, np.float32).tobytes()]
        with suppress(grpc.aio.AioRpcError):
            request = inference_pb2.InferRequest(execution=execution(model, columns), raw=raw)
            await call(request.SerializeToString())

    return infer


@pytest.fixture
def over_session(channel: grpc.aio.Channel) -> Infer:
    async def infer(model: str, columns: int = 4) -> None:
        stream: Any = channel.stream_stream(f"/{V1}/Session")()
        await stream.write(inference_pb2.SessionRequest(hello=inference_pb2.SessionHello()).SerializeToString())
        await stream.read()
        message = inference_pb2.SessionRequest(executions=[execution(model, columns, 1)]).SerializeToString()
        raw = [np.ones(columns, np.float32).tobytes()]
        await stream.write(raw_fields.join(message, raw))
        await stream.read()
        stream.cancel()

    return infer


WAYS = [
    ("rest", "rest"),
    ("over_oip", "grpc"),
    ("over_oip_stream", "grpc"),
    ("over_v1", "grpc"),
    ("over_session", "session"),
]


@pytest.fixture(params=WAYS, ids=[way for way, _ in WAYS])
def way(request: pytest.FixtureRequest) -> tuple[Infer, str]:
    """A way to ask for an inference, and the interface that it is."""
    name, interface = request.param
    return request.getfixturevalue(name), interface


async def test_what_is_refused_before_it_is_a_job_is_counted_by_face_and_code(
    way: tuple[Infer, str], counts: Counts
) -> None:
    infer, interface = way
    await infer("nobody")
    await infer("somebody-else")
    assert await counts.new() == {(interface, "MODEL_NOT_FOUND"): 2}
    await infer("echo", columns=5)
    assert await counts.new() == {(interface, "INVALID_INPUT"): 1}


@pytest.mark.parametrize("allows_control", [True])
async def test_a_load_that_fails_is_no_bug(channel: grpc.aio.Channel, http: httpx.AsyncClient, counts: Counts) -> None:
    await http.post("/v2/repository/models/typo/load")
    assert await counts.new() == {("rest", "MODEL_NOT_FOUND"): 1}
    call: Any = channel.unary_unary(f"/{OIP}/RepositoryModelLoad")
    with suppress(grpc.aio.AioRpcError):
        await call(oip.RepositoryModelLoadRequest(model_name="typo").SerializeToString())
    assert await counts.new() == {("grpc", "MODEL_NOT_FOUND"): 1}


async def test_a_request_that_is_a_job_is_counted_as_that_alone_whatever_becomes_of_it(
    way: tuple[Infer, str], counts: Counts
) -> None:
    infer, _ = way
    await infer("echo")
    assert await counts.new() == {("echo", "finished"): 1}
    await infer("fail")
    assert await counts.new() == {("fail", "invalid"): 1}


async def test_a_job_without_a_place_in_the_queue_is_a_refused_job(
    way: tuple[Infer, str], counts: Counts, models: Models, load: Callable[[], Any], http: httpx.AsyncClient
) -> None:
    infer, _ = way
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1.0] * 4}
    for _ in range(2):
        await http.post("/inferwire/v1/models/held/jobs", json={"inputs": [given]})
    assert (await load()).queued == 1
    await infer("held")
    assert await counts.new() == {("held", "refused"): 1}
    models["held"].gate.open()


async def test_what_an_ended_job_has_to_say_is_counted_once(
    channel: grpc.aio.Channel, counts: Counts, http: httpx.AsyncClient
) -> None:
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1.0] * 4}
    started = await http.post("/inferwire/v1/models/fail/jobs", json={"inputs": [given]})
    job_id = started.json()["id"]
    await http.get(f"/inferwire/v1/jobs/{job_id}", params={"wait_s": 10})
    assert (await http.get(f"/inferwire/v1/jobs/{job_id}/result")).status_code == 400
    call: Any = channel.unary_unary(f"/{V1}/GetResult")
    with pytest.raises(grpc.aio.AioRpcError):
        await call(inference_pb2.GetResultRequest(job_id=job_id).SerializeToString())
    assert await counts.new() == {("fail", "invalid"): 1}


async def test_calls_that_are_no_inferences_are_requests_as_well(
    channel: grpc.aio.Channel, counts: Counts, http: httpx.AsyncClient
) -> None:
    assert (await http.get("/v2/models/nobody")).status_code == 404
    assert (await http.get("/nothing")).status_code == 404
    assert (await http.delete("/metrics")).status_code == 405
    assert (await http.post("/v2/models/echo/infer", content=b"[")).status_code == 400
    assert (await http.post("/v2/models/echo/infer", content=bytes(200_000))).status_code == 413
    assert await counts.new() == {
        ("rest", "MODEL_NOT_FOUND"): 1,
        ("rest", "UNIMPLEMENTED"): 2,
        ("rest", "INVALID_INPUT"): 1,
        ("rest", "TOO_LARGE"): 1,
    }
    call: Any = channel.unary_unary("/inferwire.v1.ModelService/LoadModel")
    for data in (models_pb2.LoadModelRequest(name="echo").SerializeToString(), b"\xff\xff"):
        with pytest.raises(grpc.aio.AioRpcError):
            await call(data)
    assert await counts.new() == {("grpc", "PERMISSION_DENIED"): 1, ("grpc", "INVALID_INPUT"): 1}


async def test_a_bug_is_counted(rest: Infer, counts: Counts) -> None:
    await rest("bug")
    assert await counts.new() == {("bug", "finished"): 1, ("rest", "INTERNAL"): 1}


async def test_each_execution_of_a_message_is_a_request(channel: grpc.aio.Channel, counts: Counts) -> None:
    stream: Any = channel.stream_stream(f"/{V1}/Session")()
    await stream.write(inference_pb2.SessionRequest(hello=inference_pb2.SessionHello()).SerializeToString())
    await stream.read()
    executions = [execution("nobody", 4, 1, 2, 3), execution("nobody", 4, 4)]
    message = inference_pb2.SessionRequest(executions=executions).SerializeToString()
    raw = [bytes(48), bytes(16)]
    await stream.write(raw_fields.join(message, raw))
    answered: set[int] = set()
    while len(answered) < 4:
        for result in inference_pb2.SessionResponse.FromString(await stream.read()).results:
            answered.update(result.ids)
    assert await counts.new() == {("session", "MODEL_NOT_FOUND"): 4}
    stream.cancel()


async def test_an_execution_that_its_client_cancels_is_a_cancelled_job(
    channel: grpc.aio.Channel, counts: Counts, models: Models
) -> None:
    stream: Any = channel.stream_stream(f"/{V1}/Session")()
    await stream.write(inference_pb2.SessionRequest(hello=inference_pb2.SessionHello()).SerializeToString())
    await stream.read()
    message = inference_pb2.SessionRequest(executions=[execution("held", 4, 1)]).SerializeToString()
    await stream.write(raw_fields.join(message, [bytes(16)]))
    await asyncio.to_thread(models["held"].gate.wait_held, 1)
    await stream.write(inference_pb2.SessionRequest(cancels=[1]).SerializeToString())
    await stream.read()
    assert await counts.new() == {("held", "cancelled"): 1}
    stream.cancel()


async def test_a_stream_that_says_what_is_none_is_one_refused_call(channel: grpc.aio.Channel, counts: Counts) -> None:
    stream: Any = channel.stream_stream(f"/{V1}/Session")()
    await stream.write(inference_pb2.SessionRequest().SerializeToString())
    assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await counts.new() == {("grpc", "INVALID_INPUT"): 1}


async def test_at_the_level_debug_the_log_says_why(way: tuple[Infer, str], caplog: pytest.LogCaptureFixture) -> None:
    infer, interface = way
    name = "inferwire_server.service.refusals"
    with capture_logs() as at_info:
        await infer("nobody")
    with caplog.at_level(logging.DEBUG, name), capture_logs() as at_debug:
        await infer("nobody")
        await infer("echo")
    assert at_info == []
    told = [(line["event"], line["log_level"], line["interface"], line["code"]) for line in at_debug]
    assert told == [("answered with an error", "debug", interface, "MODEL_NOT_FOUND")]
    assert "'nobody'" in at_debug[0]["reason"]


async def test_the_log_has_the_id_that_an_answer_over_http_has(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    name = "inferwire_server.service.refusals"
    with caplog.at_level(logging.DEBUG, name), capture_logs() as logged:
        for path in ("/v2/models/nobody", "/nowhere"):
            named = await http.get(path, headers={"x-request-id": f"of{path}"})
            assert named.headers["x-request-id"] == f"of{path}"
            unnamed = await http.get(path)
            assert [line["request_id"] for line in logged] == [f"of{path}", unnamed.headers["x-request-id"]]
            assert {line["path"] for line in logged} == {path}
            logged.clear()


async def test_the_log_has_a_path_as_it_came_with_nothing_in_it_that_a_terminal_obeys(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "inferwire_server.service.refusals"), capture_logs() as logged:
        await http.get("/v2/models/%1b%5b2J%0a%9b/nowhere?a=1")
    assert [line["path"] for line in logged] == ["/v2/models/%1b%5b2J%0a%9b/nowhere"]


async def test_the_log_has_the_id_that_a_caller_over_grpc_gave(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    call: Any = channel.unary_unary(f"/{OIP}/ModelReady")
    name = "inferwire_server.service.refusals"
    with caplog.at_level(logging.DEBUG, name), capture_logs() as logged:
        for metadata in ((("x-request-id", "mine"),), (("x-request-id", "x" * 129),), ()):
            with pytest.raises(grpc.aio.AioRpcError):
                await call(b"\xff", metadata=metadata)
    assert [line.get("request_id") for line in logged] == ["mine", None, None]
    assert {line["path"] for line in logged} == {f"/{OIP}/ModelReady"}


async def test_the_log_has_the_id_of_a_request_on_a_stream(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    stream: Any = channel.stream_stream(f"/{OIP}/ModelStreamInfer")()
    name = "inferwire_server.service.refusals"
    with caplog.at_level(logging.DEBUG, name), capture_logs() as logged:
        for given in ("mine", "x" * 129):
            await stream.write(oip.ModelInferRequest(model_name="nobody", id=given).SerializeToString())
            await stream.read()
        await stream.done_writing()
    assert [line.get("request_id") for line in logged] == ["mine", None]
