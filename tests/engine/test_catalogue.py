"""The served models: states, reasons and versions; one that is broken leaves the others alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_states import ModelState
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import ModelOptions, Source
from inferwire_server.engine.catalogue import Catalogue
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.engine.models import Engine, QueueOptions
from inferwire_server.engine.repository import Entry
from inferwire_server.errors import ServingError
from inferwire_server.metrics import Metrics


class GatedBackend(FakeBackend):
    """Compiles when its gate is open, and fails in the way a model's name says."""

    gate = Gate()

    def compile(self, source: Source, options: ModelOptions) -> FakeModel:
        self.gate.pass_through(lambda: False)
        if options.name == "odd":
            raise KeyError("an error no runtime should raise")
        return super().compile(source, options)


@asynccontextmanager
async def a_catalogue(*names: str, gate: Gate | None = None) -> AsyncGenerator[Catalogue, None]:
    backend = GatedBackend({name: FakeModel(echo_spec(name)) for name in names})
    backend.gate = gate or Gate()
    async with Engine(backend, QueueOptions(), Metrics()) as engine:
        yield Catalogue(engine, ModelOptions("", slots=3))


def entries(folder: Path, *named: tuple[str, str]) -> list[Entry]:
    made: list[Entry] = []
    for name, version in named:
        file = folder / f"{name}-{version}.onnx"
        file.touch()
        made.append(Entry(name, version, file))
    return made


def refusal(catalogue: Catalogue, name: str, version: str = "") -> tuple[Code, str]:
    with pytest.raises(ServingError) as caught:
        catalogue.find(name, version).require()
    return caught.value.code, caught.value.message


async def test_a_model_that_loaded_is_ready_with_the_options_of_all(tmp_path: Path) -> None:
    async with a_catalogue("m") as catalogue:
        await catalogue.load(entries(tmp_path, ("m", "1")))
        served = catalogue.find("m")
        assert served.state is ModelState.READY
        assert (served.require().name, served.require().version, served.require().slots) == ("m", "1", 3)
        assert repr(catalogue) == "<Catalogue: 1/1 versions ready>"


async def test_broken_models_leave_the_others_alone_and_say_why(tmp_path: Path) -> None:
    empty = Entry("empty", "2", tmp_path / "empty")
    empty.location.mkdir()
    with capture_logs():
        async with a_catalogue("good") as catalogue:
            await catalogue.load([empty, *entries(tmp_path, ("broken", "1"), ("odd", "1"), ("good", "1"))])
            states = {served.name: served.state for served in catalogue.statuses()}
            assert states == dict.fromkeys(["empty", "broken", "odd"], ModelState.FAILED) | {"good": ModelState.READY}
            assert refusal(catalogue, "broken") == (
                Code.MODEL_FAILED,
                "failed to load 'broken' version 1: the fake runtime has no model 'broken'",
            )
            assert refusal(catalogue, "odd") == (
                Code.MODEL_FAILED,
                "failed to load 'odd' version 1: KeyError: 'an error no runtime should raise'",
            )
            assert "has to hold one model file" in refusal(catalogue, "empty", "2")[1]
            assert catalogue.has_failed
            assert catalogue.is_loaded


async def test_broken_settings_fail_their_model_alone(tmp_path: Path) -> None:
    file = tmp_path / "m" / "inferwire.toml"
    file.parent.mkdir()
    file.write_text("slots = 0")
    good, bad = entries(tmp_path, ("n", "1"), ("m", "1"))
    with capture_logs():
        async with a_catalogue("m", "n") as catalogue:
            await catalogue.load([good, replace(bad, settings_file=file)])
            assert catalogue.find("n").state is ModelState.READY
            assert refusal(catalogue, "m") == (
                Code.MODEL_FAILED,
                "failed to load 'm' version 1: m/inferwire.toml: slots is 0, expected a whole number from 1 up",
            )


async def test_a_model_is_loaded_by_its_own_settings(tmp_path: Path) -> None:
    file = tmp_path / "inferwire.toml"
    file.write_text("slots = 5\npriority = 2\n")
    (entry,) = entries(tmp_path, ("m", "1"))
    async with a_catalogue("m") as catalogue:
        await catalogue.load([replace(entry, settings_file=file)])
        model = catalogue.find("m").require()
        assert (model.slots, model.priority) == (5, 2)


def with_settings(entry: Entry, text: str) -> Entry:
    file = entry.location.with_suffix(".toml")
    file.write_text(text)
    return replace(entry, settings_file=file)


async def test_a_model_warms_up_in_every_slot_before_it_is_ready(tmp_path: Path) -> None:
    ran: list[Tensor] = []

    def compute(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        ran.extend(inputs)
        return tuple(inputs)

    model = FakeModel(echo_spec("m"), compute, Gate(is_open=False))
    (entry,) = entries(tmp_path, ("m", "1"))
    async with Engine(FakeBackend({"m": model}), QueueOptions(), Metrics()) as engine:
        catalogue = Catalogue(engine, ModelOptions("", slots=3))
        loading = asyncio.ensure_future(catalogue.load([with_settings(entry, "[warm_up]\nx = [2, 4]")]))
        await asyncio.to_thread(model.gate.wait_held, 1)
        assert catalogue.find("m").state is ModelState.WARMING
        assert not catalogue.is_loaded
        assert refusal(catalogue, "m") == (Code.MODEL_NOT_READY, "model 'm' version 1 is warming")
        model.gate.open()
        await loading
        assert catalogue.find("m").state is ModelState.READY
        assert ran == [Tensor(BY_NAME["f32"], (2, 4), bytes(32))] * 3


async def test_a_model_that_does_not_warm_up_has_failed(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path, ("m", "1"))
    with capture_logs():
        async with a_catalogue("m") as catalogue:
            await catalogue.load([with_settings(entry, "[warm_up]\n")])
            code, message = refusal(catalogue, "m")
            assert code is Code.MODEL_FAILED
            assert message.startswith("failed to load 'm' version 1: it does not warm up: input 'x' takes shapes [?,4]")


async def test_a_model_is_known_as_loading_from_the_start(tmp_path: Path) -> None:
    gate = Gate(is_open=False)
    async with a_catalogue("m", gate=gate) as catalogue:
        expected = entries(tmp_path, ("m", "1"))
        catalogue.expect(expected)
        assert refusal(catalogue, "m") == (Code.MODEL_NOT_READY, "model 'm' version 1 is loading")
        loading = asyncio.ensure_future(catalogue.load(expected))
        await asyncio.to_thread(gate.wait_held, 1)
        assert not catalogue.is_loaded
        assert not catalogue.has_failed
        assert refusal(catalogue, "m")[0] is Code.MODEL_NOT_READY
        gate.open()
        await loading
        assert catalogue.is_loaded
        assert catalogue.find("m").require().name == "m"


async def test_several_load_at_once(tmp_path: Path) -> None:
    gate = Gate(is_open=False)
    async with a_catalogue("a", "b", gate=gate) as catalogue:
        loading = asyncio.ensure_future(catalogue.load(entries(tmp_path, ("a", "1"), ("b", "1"))))
        await asyncio.to_thread(gate.wait_held, 2)
        gate.open()
        await loading


async def test_versions_are_found_by_number_and_the_highest_ready_one_without(tmp_path: Path) -> None:
    async with a_catalogue("m") as catalogue:
        ready, loading = entries(tmp_path, ("m", "9"), ("m", "10")), entries(tmp_path, ("m", "11"))
        await catalogue.load(ready)
        catalogue.expect(loading)
        assert catalogue.find("m").version == "10"
        assert [catalogue.find("m", version).version for version in ("9", "09", "10", "11")] == ["9", "9", "10", "11"]
        assert catalogue.versions("m") == ("9", "10")
        assert [served.version for served in catalogue.statuses()] == ["9", "10", "11"]


async def test_the_highest_version_stands_for_a_model_none_of_which_is_ready(tmp_path: Path) -> None:
    async with a_catalogue() as catalogue:
        catalogue.expect(entries(tmp_path, ("m", "2"), ("m", "10")))
        assert catalogue.find("m").version == "10"
        assert catalogue.versions("m") == ()


async def test_version_zero_is_a_version(tmp_path: Path) -> None:
    async with a_catalogue("m") as catalogue:
        await catalogue.load(entries(tmp_path, ("m", "0")))
        assert catalogue.find("m", "00").version == "0"


@pytest.mark.parametrize(
    ("name", "version", "code", "message"),
    [
        ("x", "", Code.MODEL_NOT_FOUND, "Request for unknown model: 'x' is not found"),
        ("m", "2", Code.MODEL_NOT_FOUND, "Request for unknown model: 'm' version 2 is not found"),
        ("m", "v1", Code.INVALID_INPUT, "failed to get model version from specified version string 'v1'"),
        ("m", "-1", Code.INVALID_INPUT, "failed to get model version from specified version string '-1'"),
        ("m", "²", Code.INVALID_INPUT, "failed to get model version from specified version string '²'"),
        ("m", "9" * 5000, Code.MODEL_NOT_FOUND, f"Request for unknown model: 'm' version {'9' * 5000} is not found"),
    ],
)
async def test_what_is_not_there_is_named(tmp_path: Path, name: str, version: str, code: Code, message: str) -> None:
    async with a_catalogue("m") as catalogue:
        await catalogue.load(entries(tmp_path, ("m", "1")))
        assert refusal(catalogue, name, version) == (code, message)


async def test_nobody_has_versions_of_an_unknown_model() -> None:
    async with a_catalogue() as catalogue:
        assert catalogue.versions("x") == ()
