"""A server that may read shared memory, and callers over gRPC and HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import pytest_asyncio
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tests.transport.oip.shared_memory.triton_caller import PREFIX, Caller

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.server import Composition
from inferwire_server.settings import Settings
from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.rest.app import create_app
from inferwire_server.transport.rpc.grpc_server import GrpcServer


def port(name: str, type_name: str) -> PortSpec:
    return PortSpec(frozenset({name}), name, BY_NAME[type_name], (Dimension(2, 2),), name, "Parameter")


def of_twos(name: str, type_name: str, *inputs: str) -> FakeModel:
    """Give two elements of each input back, as an output of its name in capitals."""
    ports = tuple(port(name, type_name) for name in inputs)
    return FakeModel(ModelSpec(name, ports, tuple(port(name.upper(), type_name) for name in inputs)))


@pytest.fixture
def models() -> dict[str, FakeModel]:
    slow = FakeModel(echo_spec("slow"), gate=Gate(is_open=False), optimal_slots=1)
    pair = of_twos("pair", "f32", "a", "b")
    return {"echo": FakeModel(echo_spec("echo")), "slow": slow, "pair": pair, "words": of_twos("words", "string", "w")}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(model_repository=tmp_path / "models", shared_memory=(PREFIX,))


@pytest_asyncio.fixture
async def addresses(composition: Composition, grpc_server: GrpcServer) -> AsyncIterator[dict[ModuleType, str]]:
    """The addresses of gRPC and HTTP of one server."""
    app = create_app(composition.services, composition.metrics.text)
    async with http_server(app, "127.0.0.1", 0) as rest:
        yield {triton_grpc: f"127.0.0.1:{grpc_server.port}", triton_http: f"127.0.0.1:{rest.port}"}


@pytest.fixture(params=[triton_grpc, triton_http], ids=["grpc", "http"])
def interface(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


@pytest.fixture
def new_caller(addresses: dict[ModuleType, str]) -> Iterator[Callable[[ModuleType], Caller]]:
    """Make callers, and remove what they leave behind."""
    made: list[Caller] = []

    def make(interface: ModuleType) -> Caller:
        made.append(Caller(interface, addresses[interface]))
        return made[-1]

    yield make
    for caller in made:
        for handle in caller.handles:
            shm.destroy_shared_memory_region(handle)


@pytest.fixture
def caller(new_caller: Callable[[ModuleType], Caller], interface: ModuleType) -> Caller:
    return new_caller(interface)
