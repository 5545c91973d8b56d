"""The first load: one broken model leaves the others alone, and each is ready once it is warm."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.repository.rig import a_rig

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.tensors import Tensor
from inferwire_server.core.versions import Latest
from inferwire_server.repository.entries import Entry, Fingerprint
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.listing import Overrides
from inferwire_server.repository.model_settings import ModelSettings


async def test_a_model_that_loaded_is_ready_with_the_options_of_all(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        model = rig.catalogue.find("m").require()
        assert (model.name, model.version, model.slots) == ("m", "1", 2)
        assert repr(rig.loader) == "<Loader: 0 changes>"


async def test_broken_models_leave_the_others_alone_and_say_why(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "good") as rig:
        rig.write("broken", "broken")
        rig.write("odd", "odd")
        (tmp_path / "empty/2").mkdir(parents=True)
        rig.write("unset")
        (tmp_path / "unset/inferwire.toml").write_text("slots = 0")
        await rig.loader.sync()
        assert rig.states() == dict.fromkeys(["broken/1", "empty/2", "odd/1", "unset/1"], "failed") | {
            "good/1": "ready"
        }
        assert rig.refusal("broken") == (Code.MODEL_FAILED, "failed to load 'broken' version 1: it is broken")
        assert rig.refusal("odd")[1].endswith("KeyError: 'an error no runtime should raise'")
        assert "has to hold one model file" in rig.refusal("empty", "2")[1]
        assert rig.refusal("unset")[1].endswith(
            "unset/inferwire.toml: slots is 0, expected a whole number from 1 up to 65536"
        )
        assert rig.catalogue.has_failed


async def test_batches_that_contradict_themselves_fail_a_model_by_where_they_are_said(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m/inferwire.toml").write_text("max_batch = 4\npreferred_batches = [8]")
        await rig.loader.sync()
        said = "m/inferwire.toml: preferred_batches is [8]: a preferred batch is 8 rows, expected 1 to 4"
        assert rig.refusal("m") == (Code.MODEL_FAILED, f"failed to load 'm' version 1: {said}")


async def test_a_model_is_loaded_by_its_own_settings(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m/inferwire.toml").write_text("slots = 5\npriority = 2\n")
        await rig.loader.sync()
        model = rig.catalogue.find("m").require()
        assert (model.slots, model.options.priority) == (5, 2)


class SlowEntry(Entry):
    """A version whose files lie on a slow file system."""

    def _stand(self) -> None:
        assert threading.current_thread() is not threading.main_thread(), "the loop stands still"

    def settings(self) -> ModelSettings:
        self._stand()
        return super().settings()

    def model_file(self, name: str | None = None) -> Path:
        self._stand()
        return super().model_file(name)

    def fingerprint(self) -> Fingerprint:
        self._stand()
        return super().fingerprint()


async def test_files_are_looked_at_on_threads(tmp_path: Path) -> None:
    def scan(_: Overrides, __: str | None) -> list[Entry]:
        return [SlowEntry("m", "1", tmp_path / "m" / "1")]

    async with a_rig(tmp_path, "m", scan=scan) as rig:
        await rig.loader.sync()
        assert rig.states() == {"m/1": "ready"}
        await rig.loader.load("m")
        assert rig.states() == {"m/1": "ready"}


async def test_several_models_load_at_once_and_are_known_from_the_start(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "a", "b") as rig:
        rig.backend.gate.close()
        rig.catalogue.expect(Repository(tmp_path, Latest()).served())
        assert rig.refusal("a") == (Code.MODEL_NOT_READY, "model 'a' version 1 is loading")
        loading = asyncio.ensure_future(rig.loader.sync())
        await asyncio.to_thread(rig.backend.gate.wait_held, 2)
        assert rig.states() == {"a/1": "loading", "b/1": "loading"}
        assert repr(rig.loader) == "<Loader: 2 changes>"
        rig.backend.gate.open()
        await loading
        assert rig.states() == {"a/1": "ready", "b/1": "ready"}


async def test_a_model_warms_up_in_every_slot_before_it_is_ready(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m/inferwire.toml").write_text("[warm_up]\nx = [2, 4]")
        rig.backend.running.close()
        loading = asyncio.ensure_future(rig.loader.sync())
        await asyncio.to_thread(rig.backend.running.wait_held, 1)
        assert rig.states() == {"m/1": "warming"}
        rig.backend.running.open()
        await loading
        assert rig.states() == {"m/1": "ready"}
        assert rig.backend.ran == [Tensor(BY_NAME["f32"], (2, 4), bytes(32))] * 2


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("shape", ["[2147483647, 4]", "[2147483647, 2147483647]"], ids=["here", "anywhere"])
async def test_a_warm_up_on_more_than_there_is_room_for_fails_with_the_setting(tmp_path: Path, shape: str) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m/inferwire.toml").write_text(f"[warm_up]\nx = {shape}")
        await rig.loader.sync()
        reason = f'm/inferwire.toml: warm_up is {{"x": {shape}}}: there is no memory for zeros of these shapes'
        assert rig.refusal("m") == (Code.MODEL_FAILED, f"failed to load 'm' version 1: {reason}")


async def test_a_model_that_does_not_warm_up_has_failed(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m/inferwire.toml").write_text("[warm_up]")
        await rig.loader.sync()
        sentence = "failed to load 'm' version 1: m/inferwire.toml: warm_up is {}: it does not warm up: input 'x' takes"
        assert rig.refusal("m")[1].startswith(sentence)
