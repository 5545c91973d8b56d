"""A server whose callers have to show a key, on every way into it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import pytest_asyncio
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from structlog.testing import capture_logs
from tests.plain_http import plain_client
from tests.transport.session.carriers import Ended, GrpcStream, SocketStream
from tests.waiting import LIMIT_S

from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2, models_pb2, states_pb2, tensors_pb2
from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.crew import Crew
from inferwire_server.open_inference.stubs import grpc_service_pb2
from inferwire_server.server import Composition
from inferwire_server.settings import Settings
from inferwire_server.sockets import Sockets, listening

KEY = "the-key-of-the-tests"
SHOWN = {"authorization": f"Bearer {KEY}"}
METADATA = tuple(SHOWN.items())
FILES = (
    grpc_service_pb2,
    inference_pb2,
    states_pb2,
    tensors_pb2,
    models_pb2,
    devices_pb2,
    health_pb2,
    reflection_pb2,
)
KEYLESS_CALLS = {
    "inference.GRPCInferenceService.ServerLive",
    "inference.GRPCInferenceService.ServerReady",
    "grpc.health.v1.Health.Check",
    "grpc.health.v1.Health.List",
    "grpc.health.v1.Health.Watch",
}
KEYLESS_PATHS = {"/", "/v2/health/live", "/v2/health/ready"}


def methods() -> Iterator[MethodDescriptor]:
    """Give every gRPC call that the server answers."""
    for file in FILES:
        descriptor: Any = file.DESCRIPTOR
        for service in descriptor.services_by_name.values():
            yield from service.methods


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """A server with a key."""
    file = tmp_path / "keys"
    file.write_text(KEY)
    return replace(settings, api_key_file=file, http_port=0, grpc_port=0, allow_model_control=True)


@pytest_asyncio.fixture(params=[1, 2], ids=["alone", "worker"])
async def servers(
    composition: Composition, settings: Settings, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Sockets]:
    """Its ports, open; those of the first of several workers, too."""
    async with listening(settings, composition, Crew(0, request.param, tmp_path, "token"), None) as opened:
        yield opened


@pytest_asyncio.fixture
async def channel(servers: Sockets) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the gRPC port."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{servers.grpc.port}") as opened:
        yield opened


@pytest_asyncio.fixture
async def http(servers: Sockets) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the HTTP port."""
    async with plain_client(base_url=f"http://127.0.0.1:{servers.http.port}", timeout=20) as client:
        yield client


async def refusal(channel: grpc.aio.Channel, method: MethodDescriptor, metadata: Any = ()) -> Ended | None:
    """Make a call with an empty message, and give the code and the sentence of its end; None where it has none."""
    make: Any = {
        (False, False): channel.unary_unary,
        (True, False): channel.stream_unary,
        (False, True): channel.unary_stream,
        (True, True): channel.stream_stream,
    }[method.client_streaming, method.server_streaming]
    service, _, name = method.full_name.rpartition(".")
    given: Any = iter([b""]) if method.client_streaming else b""
    call = make(f"/{service}/{name}")(given, metadata=metadata, timeout=20)
    try:
        if method.server_streaming:
            # One that never ends has begun with its first answer.
            await call.read()
            if not call.done():
                call.cancel()
                return None
        else:
            await call
    except grpc.aio.AioRpcError:
        pass
    return Ended(dict(iter(await call.trailing_metadata())).get(CODE_METADATA, ""), await call.details() or "")


async def test_every_call_but_those_of_probes_needs_a_key(channel: grpc.aio.Channel, composition: Composition) -> None:
    counts = composition.services.refusals.counts
    told = Ended("UNAUTHENTICATED", "no API key was given, expected one in 'authorization: Bearer KEY'")
    keyless: set[str] = set()
    for method in methods():
        before = counts.get(("grpc", "UNAUTHENTICATED"), 0)
        if await refusal(channel, method) != told:
            keyless.add(method.full_name)
            continue
        assert counts["grpc", "UNAUTHENTICATED"] == before + 1
        with_key = await refusal(channel, method, METADATA)
        assert with_key is None or with_key.code != "UNAUTHENTICATED", method.full_name
    assert keyless == KEYLESS_CALLS & {method.full_name for method in methods()}


async def test_another_key_is_refused(channel: grpc.aio.Channel) -> None:
    (method,) = (method for method in methods() if method.name == "ModelInfer")
    found = await refusal(channel, method, (("authorization", "Bearer another-key-of-sixteen"),))
    assert found == Ended("UNAUTHENTICATED", "the API key is not one of this server's")


async def test_every_path_but_those_of_probes_needs_a_key(http: httpx.AsyncClient, composition: Composition) -> None:
    document = (await http.get("/openapi.json")).json()
    assert document["security"] == [{"key": []}]
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    keyless: set[str] = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            here = path.replace("{model}", "echo").replace("{version}", "1").replace("{job}", "1")
            answer = await http.request(method, here)
            if answer.status_code != 401:
                assert operation["security"] == []
                keyless.add(path)
                continue
            assert "security" not in operation
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json() == {
                "error": "no API key was given, expected one in 'authorization: Bearer KEY'",
                "code": "UNAUTHENTICATED",
            }
            assert (await http.request(method, here, headers=SHOWN)).status_code != 401
    assert keyless == KEYLESS_PATHS
    assert composition.services.refusals.counts["rest", "UNAUTHENTICATED"] > 20


@pytest.mark.parametrize(
    "path", ["/metrics", "/nothing", "/v2/models/echo/infer", "/swagger", "/v2/health/ready/", "/docs/x"]
)
async def test_what_is_not_in_the_documentation_needs_a_key_too(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.get(path)).status_code == 401
    assert (await http.head(path)).status_code == 401
    assert (await http.get(path, headers=SHOWN)).status_code != 401


async def test_the_page_of_the_documentation_opens_without_a_key(http: httpx.AsyncClient) -> None:
    assert "swagger-ui-bundle.js" in (await http.get("/docs")).text
    assert (await http.get("/swagger/swagger-ui-bundle.js")).status_code == 200


async def test_an_inference_runs_with_a_key(http: httpx.AsyncClient) -> None:
    inputs = [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]
    answer = await http.post("/v2/models/echo/infer", json={"inputs": inputs}, headers=SHOWN)
    assert answer.json()["outputs"][0]["data"] == [1, 2, 3, 4]


async def test_a_session_that_showed_a_key_goes_on_at_a_socket(channel: grpc.aio.Channel, servers: Sockets) -> None:
    by_call = GrpcStream(channel, METADATA)
    welcome = await by_call.open()
    assert welcome.takes_sockets
    by_socket = await SocketStream.connect(servers.grpc.port, welcome.server_epoch)
    assert (await by_socket.open(welcome.session_id)).session_id == welcome.session_id
    by_socket.leave()
    by_call.leave()


async def test_no_session_begins_at_a_socket(channel: grpc.aio.Channel, servers: Sockets) -> None:
    by_call = GrpcStream(channel, METADATA)
    welcome = await by_call.open()
    by_socket = await SocketStream.connect(servers.grpc.port, welcome.server_epoch)
    await by_socket.send(inference_pb2.SessionRequest(hello=by_socket.hello()))
    ended = await by_socket.ended()
    assert ended is not None
    assert ended.code == "UNAUTHENTICATED"
    assert "the hello has no session_id" in ended.sentence
    guessing = await SocketStream.connect(servers.grpc.port, welcome.server_epoch)
    await guessing.send(inference_pb2.SessionRequest(hello=guessing.hello("0123456789abcdef")))
    assert (await guessing.ended() or Ended("", "")).code == Code.SESSION_EXPIRED.name
    by_call.leave()


@pytest.mark.parametrize("interface", ["grpc", "rest", "session"])
async def test_the_log_says_from_where_a_caller_without_a_valid_key_calls(
    interface: str, channel: grpc.aio.Channel, http: httpx.AsyncClient, servers: Sockets, composition: Composition
) -> None:
    (method,) = (method for method in methods() if method.name == "ModelInfer")
    with capture_logs() as logged:
        for _ in range(2):
            if interface == "grpc":
                await refusal(channel, method)
            elif interface == "rest":
                await http.get("/metrics")
            else:
                stream = await SocketStream.connect(servers.grpc.port, composition.services.health.identity.epoch)
                await stream.send(inference_pb2.SessionRequest(hello=stream.hello()))
                await stream.ended()
    assert [(entry["interface"], entry["address"]) for entry in logged] == [(interface, "127.0.0.1")]


async def test_keys_that_are_renewed_are_asked_for_at_once(http: httpx.AsyncClient, composition: Composition) -> None:
    composition.services.access.renew(ApiKeys.parse("the-next-key-of-them"))
    assert (await http.get("/metrics", headers=SHOWN)).status_code == 401
    assert (await http.get("/metrics", headers={"authorization": "bearer the-next-key-of-them"})).status_code == 200


async def test_a_session_whose_key_is_none_any_more_goes_on_nowhere_else(
    channel: grpc.aio.Channel, servers: Sockets, composition: Composition
) -> None:
    by_call = GrpcStream(channel, METADATA)
    welcome = await by_call.open()
    by_socket = await SocketStream.connect(servers.grpc.port, welcome.server_epoch)
    await by_socket.open(welcome.session_id)
    composition.services.access.renew(ApiKeys.parse("the-next-key-of-them"))
    late = await SocketStream.connect(servers.grpc.port, welcome.server_epoch)
    await late.send(inference_pb2.SessionRequest(hello=late.hello(welcome.session_id)))
    assert await late.ended() == Ended("UNAUTHENTICATED", "the API key is not one of this server's")
    # Resumed with a key that is one, it is that key's.
    again = GrpcStream(channel, (("authorization", "Bearer the-next-key-of-them"),))
    await again.open(welcome.session_id)
    later = await SocketStream.connect(servers.grpc.port, welcome.server_epoch)
    assert (await later.open(welcome.session_id)).session_id == welcome.session_id
    # What was open before went on all the time.
    await by_socket.send(inference_pb2.SessionRequest(cancels=[1]))
    for stream in (by_call, by_socket, again, later):
        stream.leave()


async def never() -> AsyncIterator[bytes]:
    """Give messages that do not come."""
    await asyncio.Event().wait()
    yield b""


async def test_nothing_of_a_message_is_waited_for_before_the_key(channel: grpc.aio.Channel) -> None:
    calls: dict[str, Any] = {}
    for method in methods():
        if method.full_name not in KEYLESS_CALLS:
            service, _, name = method.full_name.rpartition(".")
            make: Any = channel.stream_stream if method.server_streaming else channel.stream_unary
            calls[method.full_name] = make(f"/{service}/{name}")(never(), timeout=LIMIT_S)
    for name, call in calls.items():
        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED, name


@pytest.mark.parametrize("name", sorted(KEYLESS_CALLS))
async def test_nothing_of_a_message_is_waited_for_of_probes_without_a_key(channel: grpc.aio.Channel, name: str) -> None:
    service, _, call_name = name.rpartition(".")
    call: Any = channel.stream_stream(f"/{service}/{call_name}")(never(), timeout=20)
    if name == "grpc.health.v1.Health.List":
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
    else:
        assert await call.read() is not grpc.aio.EOF
        call.cancel()


async def test_a_probe_with_a_key_is_told_of_the_service_that_it_names(channel: grpc.aio.Channel) -> None:
    check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
    of_another = health_pb2.HealthCheckRequest(service="another").SerializeToString()
    with pytest.raises(grpc.aio.AioRpcError, match="service 'another' is not offered"):
        await check(of_another, metadata=METADATA)
    # Without one it is told of the server: what it names is not read.
    answer = health_pb2.HealthCheckResponse.FromString(await check(of_another))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_nothing_of_a_message_is_waited_for_of_what_is_no_other_worker(channel: grpc.aio.Channel) -> None:
    call: Any = channel.stream_unary("/inferwire.Crew/Http")(never(), metadata=METADATA, timeout=20)
    assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
