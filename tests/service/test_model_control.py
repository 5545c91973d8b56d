"""Loading and unloading by callers: only where the operator allows it, and seen by inferences and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import JobState
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition, compose
from inferwire_server.service.values import Inference, ServedModel, Wanted
from inferwire_server.settings import Settings

Serving = Callable[..., AbstractAsyncContextManager[Composition]]

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))
INFERENCE = Inference(Wanted(ServedModel("m")), (("x", ROW),))


async def test_callers_may_not_control_models_unless_they_are_allowed_to(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m"))) as server:
        models = server.services.models
        for call in (models.load("m"), models.unload("m")):
            with pytest.raises(ServingError, match="explicit model load / unload is not allowed; start") as caught:
                await call
            assert caught.value.code is Code.PERMISSION_DENIED
        assert models.versions("m") == ("1",)


async def test_a_watching_server_refuses_in_the_words_clients_know(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m")), watch=True) as server:
        with pytest.raises(ServingError, match="explicit model load / unload is not allowed if polling is enabled; "):
            await server.services.models.load("m")


async def test_allowed_callers_unload_and_load(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m")), allow_model_control=True) as server:
        services = server.services
        await services.models.unload("m")
        assert not services.health.is_model_ready("m")
        with pytest.raises(ServingError, match="model 'm' version 1 is unloaded") as caught:
            services.inference.submit(INFERENCE, print)
        assert caught.value.code is Code.MODEL_NOT_READY
        await services.models.load("m")
        assert (await services.inference.infer(INFERENCE)).state is JobState.FINISHED


async def test_a_load_may_not_set_what_is_the_operator_s(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m")), allow_model_control=True) as server:
        models = server.services.models
        before = models.resolve(ServedModel("m"))
        for properties in ({"CACHE_DIR": "/x"}, {"DEVICE_PROPERTIES": "{CPU:{CACHE_DIR:/x}}"}):
            with pytest.raises(ServingError, match="property CACHE_DIR is for the server's operator to set") as caught:
                await models.load("m", {"properties": properties})
            assert caught.value.code is Code.PERMISSION_DENIED
        assert models.resolve(ServedModel("m")) is before
        await models.load("m", {"properties": {"NUM_STREAMS": "2"}})


async def test_old_and_new_model_add_up_in_the_metrics(serving: Serving) -> None:
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=False), optimal_slots=2)
    async with serving(model, allow_model_control=True) as server:
        ended: list[asyncio.Future[None]] = []
        for _ in range(3):
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            ended.append(end)
            server.services.inference.submit(INFERENCE, lambda _, end=end: end.set_result(None))
        await server.services.models.load("m")
        labels = '{device="CPU",model="m",version="1"}'
        lines = server.metrics.scrape().text().decode().splitlines()
        assert [line for line in lines if line.startswith("inferwire_slots{")] == [f"inferwire_slots{labels} 4.0"]
        assert f"inferwire_busy_slots{labels} 2.0" in lines
        assert f"inferwire_queued_jobs{labels} 1.0" in lines
        model.gate.open()
        await asyncio.gather(*ended)


async def test_the_cache_s_folder_is_a_property_of_every_model(tmp_path: Path) -> None:
    seen: list[ModelOptions] = []

    class Recording(FakeBackend):
        def compile(self, source: Source, options: ModelOptions) -> FakeModel:
            seen.append(options)
            return super().compile(source, options)

    (tmp_path / "m.onnx").touch()
    settings = Settings(model_repository=tmp_path, cache_dir=tmp_path / "cache", properties=("A=1",))
    async with compose(settings, Recording({"m": FakeModel(echo_spec("m"))})) as server:
        await server.loader.sync()
    assert [options.properties for options in seen] == [{"CACHE_DIR": str(tmp_path / "cache"), "A": "1"}]
