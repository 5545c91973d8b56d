"""A whole server on real sockets over one model the test controls, which must be whole again after every fault."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx
import pytest
import pytest_asyncio
import uvloop
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from tests.faults.ways_in import OK, WAYS, Way
from tests.plain_http import plain_client
from tests.transport.conftest import sessions_of
from tests.waiting import LIMIT_S, until

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.device import Device
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.server import Composition, compose
from inferwire_server.service.values import Inference, ServedModel, Wanted
from inferwire_server.settings import Settings
from inferwire_server.transport.http.server import HttpServer, http_server
from inferwire_server.transport.rest.app import create_app
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer

SLOTS = 2
CAPACITY = 4
WORK = Inference(Wanted(ServedModel("echo")), (("x", Tensor(BY_NAME["f32"], (1, 4), bytes(16))),))


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of this folder on the loop that servers run on."""
    return {"uvloop": uvloop.new_event_loop}


@dataclass(frozen=True)
class Server:
    """A running server, the objects behind its sockets, and a client of each socket."""

    composition: Composition
    rpc: GrpcServer
    rest: HttpServer
    model: FakeModel
    channel: grpc.aio.Channel
    http: httpx.AsyncClient

    @property
    def device(self) -> Device:
        """The only device."""
        (device,) = self.composition.engine.devices
        return device

    async def call(self, way: Way, timeout_us: int = 0) -> str:
        """Infer in one way."""
        async with asyncio.timeout(LIMIT_S):
            return await way(self.channel, self.http, timeout_us)

    async def comes_to(self, running: int, queued: int) -> None:
        """Wait until so many inferences run and wait."""
        await until(lambda: self.device.occupancy == Occupancy(running, SLOTS, queued))

    def outcomes(self) -> Counter[str]:
        """Count how jobs ended."""
        return Counter({labels[-1]: int(value) for labels, value in self._samples("inferwire_jobs_total").items()})

    async def is_whole(self, **outcomes: int) -> None:
        """Check that nothing is left, that every job is counted once, and that every way still works."""
        await self.comes_to(0, 0)
        assert repr(self.composition.services.inference).startswith("<InferenceService: open, 0 in flight")
        self.adds_up(**outcomes)
        self.model.gate.open()
        for name, way in WAYS.items():
            timed = self._wire_times()
            assert await self.call(way) == OK, name
            assert self._wire_times() == timed + ("job" not in name), name
        assert self.outcomes() - Counter(finished=len(WAYS)) == Counter(outcomes)

    def adds_up(self, **outcomes: int) -> None:
        """Check that jobs have ended with these outcomes, and that all submitted jobs have ended."""
        assert self.outcomes() == Counter(outcomes)
        ended: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for labels, value in self._samples("inferwire_jobs_total").items():
            ended[labels[:-1]] += value
        assert dict(ended) == self._samples("inferwire_submitted_jobs_total")

    def _wire_times(self) -> float:
        return sum(self._samples("inferwire_wire_seconds_count").values())

    def _samples(self, name: str) -> dict[tuple[str, ...], float]:
        families = text_string_to_metric_families(self.composition.metrics.scrape().text().decode())
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        order = ("model", "version", "device", "outcome")
        return {tuple(s.labels[label] for label in order if label in s.labels): s.value for s in samples if s.value}


@asynccontextmanager
async def opened(folder: Path, model: FakeModel) -> AsyncGenerator[Server]:
    """Serve a model on both sockets."""
    (folder / "echo" / "1").mkdir(parents=True)
    (folder / "echo" / "1" / "model.onnx").touch()
    settings = Settings(
        model_repository=folder,
        queue_capacity=CAPACITY,
        allow_uploads=True,
        allow_model_control=True,
        session_grace_s=0.0,
    )
    async with compose(settings, FakeBackend({"echo": model})) as composition:
        await composition.loader.sync()
        composition.services.health.begin()
        app = create_app(composition.services, composition.metrics.text)
        async with (
            GrpcServer(composition.services, GrpcOptions(port=0), sessions_of(composition.services)) as rpc,
            http_server(app, "127.0.0.1", 0) as rest,
            grpc.aio.insecure_channel(f"127.0.0.1:{rpc.port}") as channel,
            plain_client(base_url=f"http://127.0.0.1:{rest.port}", timeout=LIMIT_S) as http,
        ):
            yield Server(composition, rpc, rest, model, channel, http)
            model.gate.open()


@pytest.fixture
def model() -> FakeModel:
    """The model: y = x of f32[?,4]."""
    return FakeModel(echo_spec("echo"), optimal_slots=SLOTS)


@pytest_asyncio.fixture
async def server(tmp_path: Path, model: FakeModel) -> AsyncIterator[Server]:
    """Serve the model. Whatever the fault was, it must not have looked like a bug to the server."""
    with capture_logs() as logged:
        async with opened(tmp_path, model) as serving:
            yield serving
    assert [entry for entry in logged if "bug" in entry["event"] or "exc_info" in entry] == []
