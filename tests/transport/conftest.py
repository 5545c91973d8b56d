"""A whole server behind real sockets in the test's own loop, over models the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
import uvloop
from tritonclient.grpc.aio import InferenceServerClient

from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.server import Composition, compose
from inferwire_server.service import Services
from inferwire_server.settings import Settings
from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.rest.app import create_app
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.session.socket_sessions import SocketSessions

Models = dict[str, FakeModel]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of this folder on the loop that servers run on, on which the behaviour of sockets depends."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def models() -> Models:
    """The models of the repository: `echo` gives y = x of f32[?,4]. Tests override or change them."""
    return {"echo": FakeModel(echo_spec("echo"))}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The settings that the server starts with."""
    return Settings(model_repository=tmp_path / "models", allow_uploads=True, session_grace_s=0.0)


@pytest.fixture
def make_backend() -> Callable[[Models], FakeBackend]:
    """Give the function that makes the backend for the models."""
    return FakeBackend


@pytest_asyncio.fixture
async def composition(
    models: Models, settings: Settings, make_backend: Callable[[Models], FakeBackend]
) -> AsyncIterator[Composition]:
    """The server without its sockets, with every model loaded."""
    assert settings.model_repository is not None
    for name in models:
        (settings.model_repository / name / "1").mkdir(parents=True)
        (settings.model_repository / name / "1" / "model.onnx").touch()
    async with compose(settings, make_backend(models)) as composed:
        await composed.loader.sync()
        composed.services.health.begin()
        yield composed
        for model in models.values():
            model.gate.open()


@pytest.fixture
def services(composition: Composition) -> Services:
    """The services behind the sockets."""
    return composition.services


@dataclass(frozen=True, slots=True)
class Load:
    """What a device is doing."""

    running: int
    queued: int


@pytest.fixture
def load(services: Services) -> Callable[[], Any]:
    """Ask how busy the one device is."""

    async def ask() -> Load:
        (device,) = await services.devices.list()
        return Load(device.occupancy.running, device.occupancy.queued)

    return ask


@pytest.fixture
def grpc_options() -> GrpcOptions:
    """Where gRPC listens."""
    return GrpcOptions(port=0)


@pytest_asyncio.fixture
async def sockets(services: Services, grpc_options: GrpcOptions) -> AsyncIterator[SocketSessions]:
    """The sessions on plain sockets, which come to the gRPC port."""
    with SocketSessions(services, grpc_options.max_message_bytes) as sessions:
        yield sessions


@pytest_asyncio.fixture
async def grpc_server(
    services: Services, grpc_options: GrpcOptions, sockets: SocketSessions
) -> AsyncIterator[GrpcServer]:
    """The gRPC port, open."""
    async with GrpcServer(services, grpc_options, sockets) as server:
        yield server


@pytest_asyncio.fixture
async def channel(grpc_server: GrpcServer) -> AsyncIterator[grpc.aio.Channel]:
    """A client's channel to it."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_server.port}") as opened:
        yield opened


@pytest_asyncio.fixture
async def rpc(grpc_server: GrpcServer) -> AsyncIterator[Any]:
    """Triton's client at the gRPC port."""
    opened: Any = InferenceServerClient(f"127.0.0.1:{grpc_server.port}")
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def rest_address(composition: Composition) -> AsyncIterator[str]:
    """The HTTP port of the same server, open."""
    app = create_app(composition.services, composition.metrics.text, 100_000)
    async with http_server(app, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.port}"


def sessions_of(services: Services) -> SocketSessions:
    """Make the sessions on plain sockets that a gRPC port needs, for tests that use none."""
    return SocketSessions(services, GrpcOptions().max_message_bytes)


def plain(message: Any) -> Any:
    """Make protobuf's JSON and ours comparable: turn long integers into numbers, and drop empty values."""
    match message:
        case dict():
            parts = {name: plain(value) for name, value in message.items()}
            return {name: value for name, value in parts.items() if value not in (0, "", [], {}, "FORMAT_NONE")}
        case list():
            return [plain(value) for value in message]
        case str() if message.lstrip("-").isdigit():
            return int(message)
        case _:
            return message
