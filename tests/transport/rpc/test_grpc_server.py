"""The gRPC port: how it opens, what it shows, and how it closes."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from structlog.testing import capture_logs
from tests.deploy.manifests import DEPLOY
from tests.transport.conftest import sessions_of
from tests.transport.http2.socket_peer import Peer
from tests.transport.http2.wire import data, data_in, goes, headers

from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_server.engine.fake_backend import FakeModel
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.repository.catalogue import Catalogue
from inferwire_server.service import HealthService, Services
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import frame
from inferwire_server.transport.http2.header_blocks import write_block
from inferwire_server.transport.listening import CannotListen
from inferwire_server.transport.rpc import grpc_server as grpc_server_module
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.rpc.health_calls import HealthCalls
from inferwire_server.transport.rpc.messages import PREFIX, PREFIX_BYTES

SERVICES = {
    "inferwire.v1.InferenceService",
    "inferwire.v1.StateService",
    "inferwire.v1.TensorService",
    "inferwire.v1.ModelService",
    "inferwire.v1.DeviceService",
    "inference.GRPCInferenceService",
}
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def check(channel: grpc.aio.Channel, service: str) -> int:
    call: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
    request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    return health_pb2.HealthCheckResponse.FromString(await call(request)).status


async def test_a_second_server_cannot_share_the_port(services: Services, grpc_server: GrpcServer) -> None:
    port = grpc_server.port
    with pytest.raises(CannotListen) as raised:
        async with GrpcServer(services, GrpcOptions(port=port), sessions_of(services)):
            pass
    assert str(raised.value) == (
        f"cannot listen for gRPC on 127.0.0.1:{port}: another process uses the port; "
        "stop it, or choose another port with --grpc-port"
    )


async def test_an_address_of_another_machine_is_named(services: Services) -> None:
    with pytest.raises(OSError, match=r"cannot listen for gRPC on 192\.0\.2\.1:0: .*--host"):
        async with GrpcServer(services, GrpcOptions(host="192.0.2.1", port=0), sessions_of(services)):
            pass


async def test_a_host_that_is_none_is_named(services: Services) -> None:
    with pytest.raises(CannotListen) as raised:
        async with GrpcServer(services, GrpcOptions(host="nowhere.invalid", port=0), sessions_of(services)):
            pass
    assert str(raised.value) == (
        "cannot listen for gRPC on nowhere.invalid:0: there is no host of this name; choose another address with --host"
    )


async def test_an_address_in_brackets_is_to_be_given_without(services: Services) -> None:
    with pytest.raises(CannotListen) as raised:
        async with GrpcServer(services, GrpcOptions(host="[::1]", port=0), sessions_of(services)):
            pass
    assert str(raised.value) == (
        "cannot listen for gRPC on [::1]:0: an IPv6 address has brackets only where a port follows it; give --host ::1"
    )


async def test_a_closed_server_frees_its_port(services: Services) -> None:
    async with GrpcServer(services, GrpcOptions(port=0), sessions_of(services)) as server:
        port = server.port
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


async def test_the_repr_says_where_it_listens(grpc_server: GrpcServer) -> None:
    assert repr(grpc_server) == f"<GrpcServer 127.0.0.1:{grpc_server.port}: <Drain: serving, 0 calls>>"


@pytest.mark.parametrize("service", ["", *sorted(SERVICES)])
async def test_the_health_is_the_servers_readiness(channel: grpc.aio.Channel, services: Services, service: str) -> None:
    assert await check(channel, service) == SERVING
    services.health.end()
    assert await check(channel, service) == NOT_SERVING


async def test_the_health_of_all_services_is_not_listed(services: Services) -> None:
    with pytest.raises(ServingError, match="does not list") as raised:
        await HealthCalls(services.health, Drain(), ()).list()
    assert raised.value.code is Code.UNIMPLEMENTED


async def test_the_health_of_a_service_nobody_knows_is_not_found(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await check(channel, "nope")
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


async def test_watchers_hear_of_every_change_and_of_the_end(
    channel: grpc.aio.Channel, services: Services, grpc_server: GrpcServer
) -> None:
    call: Any = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")

    async def heard() -> int:
        return health_pb2.HealthCheckResponse.FromString(await call.read()).status

    assert await heard() == SERVING
    services.health.end()
    grpc_server.publish_readiness()
    assert await heard() == NOT_SERVING
    services.health.begin()
    grpc_server.publish_readiness()
    assert await heard() == SERVING
    drain = asyncio.ensure_future(grpc_server.drain(10))
    assert await heard() == NOT_SERVING
    assert await call.read() is grpc.aio.EOF
    assert await drain == 0


async def test_reflection_shows_both_contracts(channel: grpc.aio.Channel) -> None:
    call: Any = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")()

    async def ask(**question: Any) -> reflection_pb2.ServerReflectionResponse:
        await call.write(reflection_pb2.ServerReflectionRequest(**question).SerializeToString())
        return reflection_pb2.ServerReflectionResponse.FromString(await call.read())

    listed = (await ask(list_services="")).list_services_response.service
    assert {service.name for service in listed} == SERVICES | {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    for service in listed:
        described = await ask(file_containing_symbol=service.name)
        assert described.file_descriptor_response.file_descriptor_proto, service.name
    await call.done_writing()


async def test_a_message_over_the_limit_is_refused_and_the_next_is_served(services: Services) -> None:
    async with (
        GrpcServer(services, GrpcOptions(port=0, max_message_bytes=1000), sessions_of(services)) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        call: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call(bytes(2000))
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert pb.ServerLiveResponse.FromString(await call(b"")).live


async def test_a_drain_whose_time_is_up_counts_and_logs_what_it_cuts_off(
    channel: grpc.aio.Channel, grpc_server: GrpcServer, models: dict[str, FakeModel]
) -> None:
    gate = models["echo"].gate
    gate.close()
    message = pb.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(16)])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(message.SerializeToString())
    await asyncio.to_thread(gate.wait_held, 1)
    with capture_logs() as logged:
        assert await grpc_server.drain(0) == 1
    assert [(entry["log_level"], entry["calls"]) for entry in logged] == [("warning", 1)]
    with pytest.raises(grpc.aio.AioRpcError):
        await call
    await asyncio.to_thread(gate.wait_held, 0)


def calling(method: str) -> bytes:
    """Write the headers of a call."""
    path = b"/inference.GRPCInferenceService/" + method.encode()
    called = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path)]
    return write_block([*called, (b"content-type", b"application/grpc")])


@asynccontextmanager
async def unread(server: GrpcServer, models: dict[str, FakeModel]) -> AsyncGenerator[Peer, None]:
    """Make a call that has ended, and whose caller takes nothing of the answer so far; give the caller."""
    message = pb.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(16)])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    gate = models["echo"].gate
    gate.close()
    peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
    content = message.SerializeToString()
    peer.say(frames.PREFACE, frames.settings({frames.INITIAL_WINDOW_SIZE: 0}))
    peer.say(headers(1, calling("ModelInfer")), data(1, PREFIX.pack(0, len(content)) + content, frames.END_STREAM))
    await asyncio.to_thread(gate.wait_held, 1)
    gate.open()
    while (await peer.told(1))[0].kind != frames.HEADERS:
        pass
    yield peer
    peer.close()


async def test_an_answer_is_on_its_way_for_as_long_as_there_is_time(
    grpc_server: GrpcServer, models: dict[str, FakeModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_server_module, "_FLUSH_S", 0.01)
    async with unread(grpc_server, models) as peer:
        drain = asyncio.ensure_future(grpc_server.drain(10))
        while await peer.told(1) != [goes(1)]:
            pass
        peer.say(frames.window_update(1, 1000))
        told = await peer.rest()
        assert pb.ModelInferResponse.FromString(data_in(told, 1)[PREFIX_BYTES:]).raw_output_contents == [bytes(16)]
        assert await drain == 0


async def test_a_call_that_is_still_being_sent_when_the_port_closes_is_told_why_it_is_not_taken(
    grpc_server: GrpcServer,
) -> None:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", grpc_server.port))
    heard = frame(frames.PING, content=b"heard it")
    peer.say(frames.PREFACE, frames.settings({}), headers(1, calling("ServerLive")), data(1, PREFIX.pack(0, 2)), heard)
    while (await peer.told(1))[0].content != b"heard it":
        pass
    drain = asyncio.ensure_future(grpc_server.drain(10))
    (refusal,) = await peer.told(1)
    assert (refusal.kind, refusal.stream, refusal.flags & frames.END_STREAM) == (frames.HEADERS, 1, frames.END_STREAM)
    assert b"SHUTTING_DOWN" in refusal.content
    await peer.rest()
    assert await drain == 0


async def test_an_answer_that_nobody_takes_is_counted_and_logged(
    grpc_server: GrpcServer, models: dict[str, FakeModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_server_module, "_FLUSH_S", 0.01)
    async with unread(grpc_server, models):
        with capture_logs() as logged:
            assert await grpc_server.drain(0) == 1
    assert [(entry["log_level"], entry["answers"]) for entry in logged] == [("warning", 1)]


async def test_clients_that_look_at_the_health_lose_no_call_to_a_server_that_goes(services: Services) -> None:
    (config,) = re.findall(r"{.*healthCheckConfig.*}", (DEPLOY / "kubernetes.yaml").read_text())
    going, staying = named(services, "going"), named(services, "staying")
    async with (
        GrpcServer(going, GrpcOptions(port=0), sessions_of(going)) as left,
        GrpcServer(staying, GrpcOptions(port=0), sessions_of(staying)) as right,
        grpc.aio.insecure_channel(
            f"ipv4:127.0.0.1:{left.port},127.0.0.1:{right.port}", options=(("grpc.service_config", config),)
        ) as channel,
        asyncio.timeout(20),
    ):
        call: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerMetadata")

        async def answering() -> list[str]:
            """Say who takes two calls in a row: each takes one, where both are called."""
            return sorted([pb.ServerMetadataResponse.FromString(await call(b"")).name for _ in range(2)])

        while await answering() != ["going", "staying"]:
            pass
        going.health.end()
        left.publish_readiness()
        while await answering() != ["staying", "staying"]:
            pass
        await left.drain(0)
        assert await answering() == ["staying", "staying"]


def named(services: Services, name: str) -> Services:
    """Give the services of another server, which has its own health."""
    health = HealthService(replace(services.health.identity, name=name), Catalogue(), is_strict=False)
    health.begin()
    return replace(services, health=health)


async def unary(channel: grpc.aio.Channel, message: bytes) -> None:
    call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    await call(message)


async def streamed(channel: grpc.aio.Channel, message: bytes) -> None:
    call: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")()
    await call.write(message)
    await call.done_writing()
    while await call.read() is not grpc.aio.EOF:
        pass


@pytest.mark.parametrize("way", [unary, streamed])
async def test_who_calls_while_the_port_closes_is_told_to_call_again(
    grpc_server: GrpcServer, way: Callable[[grpc.aio.Channel, bytes], Awaitable[None]]
) -> None:
    message = pb.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(16)])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    refused: set[str | bytes] = set()
    answered = asyncio.Semaphore(0)

    async def call_until_nobody_answers() -> grpc.StatusCode:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_server.port}") as channel:
            while True:
                try:
                    await way(channel, message.SerializeToString())
                    answered.release()
                except grpc.aio.AioRpcError as error:
                    # Not the details: gRPC replaces them where the end of the connection is read with the trailers.
                    if (code := dict(iter(error.trailing_metadata())).get(CODE_METADATA)) is None:
                        return error.code()
                    refused.add(code)

    callers = [asyncio.ensure_future(call_until_nobody_answers()) for _ in range(8)]
    for _ in range(20):
        await answered.acquire()
    assert await grpc_server.drain(10) == 0
    assert await asyncio.gather(*callers) == [grpc.StatusCode.UNAVAILABLE] * 8
    assert refused == {"SHUTTING_DOWN"}
