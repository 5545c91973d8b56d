"""Which calls concern more workers than one: every call of the server is in the tables, or stays by decision."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor
from starlette.routing import Route
from tests.transport.conftest import sessions_of

from inferwire_proto.inferwire.v1 import inference_pb2
from inferwire_server.composition import Composition
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.stubs import grpc_service_pb2
from inferwire_server.service import Services
from inferwire_server.transport.relay.audiences import HTTP, RPC, SESSIONS, Reach, http_audience
from inferwire_server.transport.rest.app import create_app
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.rpc.methods import RawCall

PLACES = {"{model}": "echo", "{version}": "1", "{job}": "0123-1", "{region}": "in"}
"""What callers write where a path has a parameter."""

UNDECIDED = "who answers is said in relay/audiences.py, or here where the call stays at the worker that it reaches"

# It says what every worker has alike, because it was loaded or set in all of them; or refuses, as all of them would.
ALIKE = {
    "GET /v2",
    "GET /v2/",
    "GET /v2/health/live",
    "GET /v2/health/ready",
    "GET /v2/models",
    "GET /v2/models/{model}",
    "GET /v2/models/{model}/config",
    "GET /v2/models/{model}/ready",
    "GET /v2/models/{model}/versions/{version}",
    "GET /v2/models/{model}/versions/{version}/config",
    "GET /v2/models/{model}/versions/{version}/ready",
    "POST /v2/repository/index",
    "GET /inferwire/v1/models",
    "GET /v1/config",
    "GET /v2/logging",
    "GET /v2/trace/setting",
    "POST /v2/trace/setting",
    "GET /v2/models/{model}/trace/setting",
    "POST /v2/models/{model}/trace/setting",
    "GET /v2/systemsharedmemory/status",
    "GET /v2/systemsharedmemory/region/{region}/status",
    "GET /v2/cudasharedmemory/status",
    "GET /v2/cudasharedmemory/region/{region}/status",
    "POST /v2/cudasharedmemory/region/{region}/register",
    "POST /v2/cudasharedmemory/region/{region}/unregister",
    "POST /v2/cudasharedmemory/unregister",
    "GET /",
    "GET /docs",
    "GET /openapi.json",
    "GET /swagger/swagger-ui-bundle.js",
    "GET /swagger/swagger-ui.css",
    "GET /swagger/favicon-32x32.png",
}

RPC_ALIKE = {
    "grpc.health.v1.Health.Check",
    "inference.GRPCInferenceService.ServerLive",
    "inference.GRPCInferenceService.ServerReady",
    "inference.GRPCInferenceService.ModelReady",
    "inference.GRPCInferenceService.ServerMetadata",
    "inference.GRPCInferenceService.ModelMetadata",
    "inference.GRPCInferenceService.ModelConfig",
    "inference.GRPCInferenceService.RepositoryIndex",
    "inference.GRPCInferenceService.SystemSharedMemoryStatus",
    "inference.GRPCInferenceService.CudaSharedMemoryStatus",
    "inference.GRPCInferenceService.CudaSharedMemoryRegister",
    "inference.GRPCInferenceService.CudaSharedMemoryUnregister",
    "inference.GRPCInferenceService.TraceSetting",
    "inferwire.v1.DeviceService.GetProperty",
    "inferwire.v1.DeviceService.GetVersions",
    "inferwire.v1.DeviceService.CheckProperties",
    "inferwire.v1.DeviceService.ListExtensions",
    "inferwire.v1.ModelService.GetModel",
    "inferwire.v1.ModelService.ListModels",
    "inferwire.v1.ModelService.GetLabels",
}

# It stays with its connection, and has nothing of a session's.
RPC_STREAMS = {"grpc.health.v1.Health.Watch", "inference.GRPCInferenceService.ModelStreamInfer"}


@pytest.fixture
def routes(composition: Composition) -> list[tuple[str, str]]:
    """List the methods and paths of the application."""
    app = create_app(composition.services, composition.metrics.text)
    found = [route for route in app.router.routes if isinstance(route, Route)]
    assert len(found) == len(app.router.routes)
    methods = [(method, route.path_format) for route in found for method in route.methods or ()]
    # What answers HEAD has to answer as GET does, from the same workers.
    heads, others = ({each for each in methods if (each[0] == "HEAD") is wanted} for wanted in (True, False))
    assert {("GET", path) for _, path in heads} <= others
    return sorted(others)


def written(path: str) -> str:
    for place, value in PLACES.items():
        path = path.replace(place, value)
    assert "{" not in path
    return path


def test_every_route_is_in_the_table_or_stays_by_decision(routes: list[tuple[str, str]]) -> None:
    staying = {f"{method} {path}" for method, path in routes if http_audience(method, written(path)) is None}
    assert staying == ALIKE, UNDECIDED


def test_the_table_names_what_the_application_names(routes: list[tuple[str, str]]) -> None:
    """A subject is a job's id or a model's name, whatever else the path says."""
    for method, path in routes:
        found = http_audience(method, written(path))
        if found is not None and found.audience in (Reach.OWNER, Reach.STATES):
            assert found.subject == written("{job}" if found.audience is Reach.OWNER else "{model}"), path


def test_every_line_of_the_table_is_a_route(routes: list[tuple[str, str]]) -> None:
    def nameless(path: str) -> str:
        return re.sub(r"{\w+(:path)?}", "{}", path)

    named = [(method, nameless(path)) for method, path, _ in HTTP]
    assert len(set(named)) == len(named)
    assert set(named) <= {(method, nameless(path)) for method, path in routes}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/metrics"),
        ("GET", "/metrics/"),
        ("GET", "/v2/models/a/b/stats"),
        ("PUT", "/v2/logging"),
        ("GET", ""),
    ],
)
def test_what_is_no_route_stays(method: str, path: str) -> None:
    assert http_audience(method, path) is None


def test_head_concerns_whom_get_does() -> None:
    for path in ("/metrics", "/inferwire/v1/jobs/0123-1", "/v2/health/ready"):
        assert http_audience("HEAD", path) == http_audience("GET", path)
    assert http_audience("HEAD", "/v2/repository/models/echo/load") is None


@pytest.fixture
async def methods(services: Services) -> set[str]:
    """List the calls that the server offers, as it shows them to what is around them."""
    found: set[str] = set()

    def around(method: MethodDescriptor, call: RawCall) -> RawCall:
        found.add(method.full_name)
        return call

    async with GrpcServer(services, GrpcOptions(port=0), sessions_of(services), around):
        return found


def test_every_call_is_in_the_table_or_stays_by_decision(methods: set[str]) -> None:
    assert SESSIONS.isdisjoint(RPC)
    # Newer packages have a call that this server does not offer.
    refused = {"grpc.health.v1.Health.List"}
    assert methods - set(RPC) - SESSIONS - refused == RPC_ALIKE | RPC_STREAMS, UNDECIDED
    assert methods >= set(RPC) | SESSIONS


@pytest.mark.parametrize(
    ("method", "request_of"),
    [
        ("Wait", inference_pb2.WaitRequest),
        ("GetResult", inference_pb2.GetResultRequest),
        ("Cancel", inference_pb2.CancelRequest),
    ],
)
def test_what_a_job_s_call_names_is_the_job(method: str, request_of: type[Any]) -> None:
    audience, subject, _ = RPC[f"inferwire.v1.InferenceService.{method}"]
    assert (audience, subject(request_of(job_id="ab-1").SerializeToString())) == (Reach.OWNER, "ab-1")


def test_what_an_inference_names_is_its_model() -> None:
    audience, subject, _ = RPC["inference.GRPCInferenceService.ModelInfer"]
    request = grpc_service_pb2.ModelInferRequest(id="7", model_name="echo", raw_input_contents=[b"\xff" * 9])
    assert (audience, subject(request.SerializeToString())) == (Reach.STATES, "echo")


LARGE = b"\xa2\x06\x80\x80\x80\x04" + bytes(8 << 20)
"""A field that no message knows, of 8 MiB."""


@pytest.mark.parametrize("call", ["Wait", "GetResult", "Cancel"])
def test_the_job_that_a_large_message_names_is_not_looked_for(call: str) -> None:
    with pytest.raises(ServingError, match="expected at most 8388608 in a call without tensors"):
        RPC[f"inferwire.v1.InferenceService.{call}"].subject(LARGE)


def test_the_settings_that_a_large_message_has_are_not_looked_for() -> None:
    reads = RPC["inference.GRPCInferenceService.LogSettings"].reads
    assert reads is not None
    with pytest.raises(ServingError, match="expected at most 8388608 in a call without tensors"):
        reads(LARGE)
