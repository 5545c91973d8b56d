"""The whole server except gRPC, over real sockets, with models that the test controls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.plain_http import plain_client
from tests.waiting import until

from inferwire_proto.element_types import BY_NAME, ELEMENT_TYPES
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition, compose
from inferwire_server.service import Services
from inferwire_server.settings import Settings
from inferwire_server.transport.http.server import HttpServer, http_server
from inferwire_server.transport.rest.app import Api, create_app

BODY_LIMIT = 1024 * 1024
_ALIASES = frozenset({"y", "scores"})


def port(name: str, type_name: str, *lengths: int | None) -> PortSpec:
    """Describe a port; None is a dimension of any length."""
    shape = tuple(Dimension(length or 0, length) for length in lengths)
    return PortSpec(frozenset({name}), name, BY_NAME[type_name], shape, name, "Parameter")


def same(name: str, *ports: PortSpec) -> ModelSpec:
    """Describe a model that gives what it takes; outputs are named after their inputs."""
    outputs = tuple(replace(p, names=frozenset({f"{p.oip_name}_out"}), oip_name=f"{p.oip_name}_out") for p in ports)
    return ModelSpec(name, ports, outputs)


def fail(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Fail with the code whose number the first byte of the input is."""
    code = next(code for code in Code if code.wire == int(inputs[0].data[0]))
    raise ServingError(code, f"{code.name} was asked for", retry_after_s=1.5 if code is Code.QUEUE_FULL else None)


def raise_bug(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Give an invalid output, so that the code that writes it raises."""
    return (inputs[0]._replace(data=b"12345"),)


def models() -> dict[str, FakeModel]:
    """Make every model of the tests."""
    made = [
        FakeModel(echo_spec("echo")),
        FakeModel(echo_spec("gated"), gate=Gate(is_open=False), optimal_slots=1),
        FakeModel(same("two", port("a", "f32", 2), port("b", "i32", 2))),
        FakeModel(ModelSpec("alias", (port("x", "f32", 2),), (replace(port("scores", "f32", 2), names=_ALIASES),))),
        FakeModel(same("fail", port("code", "u8", 1)), compute=fail),
        FakeModel(same("bug", port("x", "f32", 1)), compute=raise_bug),
        FakeModel(same("open", port("x", "f32", None, 2, None))),
        FakeModel(same("very_open", port("x", "f32", None, None, None))),
        *(FakeModel(same(row.name, port("x", row.name, None))) for row in ELEMENT_TYPES),
    ]
    return {model.spec.name: model for model in made}


@dataclass(frozen=True)
class Rest:
    """A running server, a client of it, and the objects behind its socket."""

    client: httpx.AsyncClient
    server: HttpServer
    app: Api
    composition: Composition
    models: dict[str, FakeModel]

    @property
    def services(self) -> Services:
        """The services that the transport calls."""
        return self.composition.services

    @property
    def address(self) -> str:
        """Where the server listens."""
        return f"127.0.0.1:{self.server.port}"

    async def load(self) -> Occupancy:
        """Count what runs and waits."""
        (device,) = await self.services.devices.list()
        return device.occupancy

    async def reaches(self, *, running: int, queued: int) -> None:
        """Wait until so many inferences run and wait."""
        (device,) = self.composition.engine.devices
        await until(lambda: (device.occupancy.running, device.occupancy.queued) == (running, queued))

    async def infer(self, model: str, *inputs: dict[str, Any], **more: object) -> httpx.Response:
        """Post an inference in JSON."""
        return await self.client.post(f"/v2/models/{model}/infer", json={"inputs": list(inputs), **more})

    async def post(self, model: str, content: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
        """Post the bytes of an inference as they are."""
        return await self.client.post(f"/v2/models/{model}/infer", content=content, headers=headers)

    async def refusal(self, model: str, *inputs: dict[str, Any], **more: object) -> str:
        """Post an inference that must be refused as invalid, and give the error's sentence."""
        return sentence(await self.infer(model, *inputs, **more))


def sentence(response: httpx.Response, code: Code = Code.INVALID_INPUT) -> str:
    """Check an error's form and give its sentence."""
    body = response.json()
    assert set(body) == {"error", "code"}
    assert (response.status_code, body["code"]) == (code.http, code.name), body["error"]
    return body["error"]


def tensor(name: str, datatype: str, shape: Sequence[object], data: object) -> dict[str, Any]:
    """Write an input."""
    return {"name": name, "datatype": datatype, "shape": list(shape), "data": data}


X = tensor("x", "FP32", [1, 4], [1.0, 2.0, 3.0, 4.0])
"""What the model `echo` takes."""


@pytest.fixture
async def rest(tmp_path: Path) -> AsyncGenerator[Rest, None]:
    """Serve every model of the tests, and one that does not load."""
    fakes = models()
    for name in (*fakes, "broken"):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "model.onnx").touch()
    settings = Settings(model_repository=tmp_path, queue_capacity=256)
    async with compose(settings, FakeBackend(fakes)) as composition:
        await composition.loader.sync()
        composition.services.health.begin()
        app = create_app(composition.services, composition.metrics.text, BODY_LIMIT)
        async with (
            http_server(app, "127.0.0.1", 0) as server,
            plain_client(base_url=f"http://127.0.0.1:{server.port}", timeout=20) as client,
        ):
            yield Rest(client, server, app, composition, fakes)
            for model in fakes.values():
                model.gate.open()
