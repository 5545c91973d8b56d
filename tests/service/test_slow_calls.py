"""Calls to the runtime that take long: nothing that answers operators waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.waiting import LIMIT_S

from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.composition import compose
from inferwire_server.core.layers import LayerTime, ModelGraph
from inferwire_server.engine.backend import PluginVersion
from inferwire_server.engine.engine import AT_ONCE, CLIENTS_AT_ONCE
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.service import Services
from inferwire_server.service.values import ServedModel
from inferwire_server.settings import Settings

TARGET = ServedModel("m")

CALLS: dict[str, Callable[[Services], Awaitable[object]]] = {
    "layers": lambda services: services.models.layers(TARGET),
    "export": lambda services: services.models.export(TARGET),
    "runtime_model": lambda services: services.models.runtime_model(TARGET),
    "get_property": lambda services: services.devices.get_property("CPU", "FULL_DEVICE_NAME"),
    "check_properties": lambda services: services.devices.check_properties("CPU", {}),
    "get_versions": lambda services: services.devices.get_versions("CPU"),
}


class SlowModel(FakeModel):
    """A model that a test holds as it is asked about itself."""

    def layers(self) -> tuple[LayerTime, ...]:
        self.gate.pass_through(lambda: False)
        return super().layers()

    def runtime_model(self) -> ModelGraph:
        self.gate.pass_through(lambda: False)
        return super().runtime_model()

    def export(self) -> bytes:
        self.gate.pass_through(lambda: False)
        return super().export()


class SlowBackend(FakeBackend):
    """A runtime that a test holds as it is asked about devices."""

    def __init__(self, gate: Gate) -> None:
        super().__init__({"m": SlowModel(echo_spec("m"), gate=gate)})
        self._gate = gate

    def check_properties(self, device: str, properties: Properties) -> Properties:
        self._gate.pass_through(lambda: False)
        return super().check_properties(device, properties)

    def device_property(self, device: str, name: str) -> PropertyValue:
        self._gate.pass_through(lambda: False)
        return super().device_property(device, name)

    def versions(self, device: str) -> dict[str, PluginVersion]:
        self._gate.pass_through(lambda: False)
        return super().versions(device)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_metrics_do_not_wait_for_what_clients_ask_the_runtime(
    tmp_path: Path, call: Callable[[Services], Awaitable[object]]
) -> None:
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/model.onnx").touch()
    gate = Gate()
    settings = Settings(model_repository=tmp_path, allow_exports=True)
    async with compose(settings, SlowBackend(gate)) as server:
        await server.loader.sync()
        gate.close()
        try:
            asking = [asyncio.ensure_future(call(server.services)) for _ in range(AT_ONCE)]
            await asyncio.sleep(0)  # each has begun, or waits for a thread
            async with asyncio.timeout(LIMIT_S):
                assert b"inferwire_" in await server.metrics.text()
            await asyncio.to_thread(gate.wait_held, CLIENTS_AT_ONCE)
        finally:
            gate.open()
        assert len(set(map(repr, await asyncio.gather(*asking)))) == 1
