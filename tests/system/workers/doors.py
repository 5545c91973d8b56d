"""Connections to a server of several workers: one to each, to check that any will do."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from typing import Any, NamedTuple, TypeVar

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message
from tests.waiting import LIMIT_S

from inferwire_cli.server_process import ServerProcess
from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1 import inference_pb2 as v1
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip

OIP = "inference.GRPCInferenceService"
V1 = "inferwire.v1.InferenceService"

M = TypeVar("M", bound=Message)


class Answer(NamedTuple):
    """An HTTP answer, without the headers that differ between answers."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Door:
    """A connection of each kind, to one and the same worker."""

    worker: int
    http: HTTPConnection
    channel: grpc.Channel

    def rest(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Make an HTTP call; a body that is no bytes is sent as JSON."""
        return rest(self.http, method, path, body, **headers)

    def call(self, method: str, request: Message, answer: type[M]) -> M:
        """Make a gRPC call, by its full name."""
        return call(self.channel, method, request, answer)


def rest(connection: HTTPConnection, method: str, path: str, body: object = None, **headers: str) -> Answer:
    """Make an HTTP call; a body that is no bytes is sent as JSON. Names of headers have _ for -."""
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, content, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    said = [(name.lower(), value) for name, value in answer.getheaders()]
    return Answer(answer.status, sorted(each for each in said if each[0] != "date"), answer.read())


def call(channel: grpc.Channel, method: str, request: Message, answer: type[M], *metadata: tuple[str, str]) -> M:
    """Make a gRPC call, by its full name."""
    made: Any = channel.unary_unary("/{}/{}".format(*method.rsplit(".", 1)), None, answer.FromString)
    return made(request.SerializeToString(), timeout=LIMIT_S, metadata=metadata)


def refusal(
    channel: grpc.Channel, method: str, request: Any, *metadata: tuple[str, str]
) -> tuple[str, str | None, object]:
    """Make a gRPC call that fails, and give its status, its sentence and its code."""
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, method, request, oip.ServerLiveResponse, *metadata)
    error: Any = caught.value
    return error.code().name, error.details(), dict(iter(error.trailing_metadata())).get(CODE_METADATA)


def inferred(answer: Any) -> Any:
    return np.array(answer["outputs"][0]["data"], np.float32)


def rest_tensor(name: str, values: Any) -> dict[str, Any]:
    """Write an input of f32 in JSON."""
    return {"name": name, "datatype": "FP32", "shape": list(values.shape), "data": values.ravel().tolist()}


def oip_request(model: str, name: str, values: Any) -> oip.ModelInferRequest:
    """Write a request with one input of f32."""
    request = oip.ModelInferRequest(model_name=model, raw_input_contents=[values.tobytes()])
    request.inputs.add(name=name, datatype="FP32", shape=values.shape)
    return request


def job_request(model: str, name: str, values: Any) -> v1.StartAsyncRequest:
    """Write a request to start a job with one input of f32."""
    request = v1.StartAsyncRequest(raw=[values.tobytes()])
    request.execution.target.served = model
    request.execution.inputs.add(name=name, element_type="ELEMENT_TYPE_F32", shape=values.shape)
    return request


def worker_of(job_id: str) -> int:
    """Give the worker that has made a job's id; 0 if there is only one."""
    _, _, number = job_id.partition("-")
    return int(number or 0)


@contextmanager
def opened_doors(server: ServerProcess, workers: int, model: str, name: str, values: Any) -> Generator[list[Door]]:
    """Open connections until every worker has one of each kind; the id of a job tells the worker."""
    with ExitStack() as stack:
        https: dict[int, HTTPConnection] = {}
        body = {"inputs": [rest_tensor(name, values)]}
        while len(https) < workers:
            http = stack.enter_context(closing(HTTPConnection(server.host, server.http_port, timeout=LIMIT_S)))
            started = rest(http, "POST", f"/inferwire/v1/models/{model}/jobs", body)
            https.setdefault(worker_of(started.json["id"]), http)
        channels: dict[int, grpc.Channel] = {}
        job = job_request(model, name, values)
        while len(channels) < workers:
            channel = stack.enter_context(own_channel(server))
            job_id = call(channel, f"{V1}.StartAsync", job, v1.StartAsyncResponse).job_id
            channels.setdefault(worker_of(job_id), channel)
        yield [Door(worker, https[worker], channels[worker]) for worker in range(workers)]


_numbers = count()


def own_channel(server: ServerProcess) -> grpc.Channel:
    """Make a channel with a connection of its own."""
    options = (("grpc.use_local_subchannel_pool", 1), ("inferwire.test", next(_numbers)))
    return grpc.insecure_channel(server.grpc_address, options)
