"""Loads and unloads that a caller asks for, with settings of their own or without."""

from __future__ import annotations

import asyncio
import gc
import os
import re
from errno import EMFILE, ESTALE
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.repository.rig import a_rig, settled
from tests.waiting import until

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import JobState
from inferwire_server.core.versions import Latest
from inferwire_server.engine.fake_backend import Gate
from inferwire_server.errors import ServingError
from inferwire_server.repository.entries import Entry
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.listing import Overrides


async def test_an_unloaded_model_stays_so_until_it_is_loaded(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("broken", "broken")
        await rig.loader.sync()
        rig.backend.running.close()
        ends = [rig.submit()[1] for _ in range(3)]
        unloading = asyncio.ensure_future(rig.loader.unload("m"))
        await rig.loader.unload("broken")
        await settled(rig, {"broken/1": "unloaded", "m/1": "draining"})
        await rig.loader.sync()
        assert rig.states() == {"broken/1": "unloaded", "m/1": "draining"}
        rig.backend.running.open()
        await unloading
        assert [(await end).state for end in ends] == [JobState.FINISHED] * 3
        await rig.loader.sync()
        assert rig.states() == {"broken/1": "unloaded", "m/1": "unloaded"}
        assert rig.engine.devices[0].models == ()
        await rig.loader.load("m")
        assert rig.states() == {"broken/1": "unloaded", "m/1": "ready"}


@pytest.mark.parametrize("loads_anew", [False, True])
async def test_every_unload_answers_when_the_last_job_has_ended(tmp_path: Path, loads_anew: bool) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        rig.backend.running.close()
        end = rig.submit()[1]
        await asyncio.to_thread(rig.backend.running.wait_held, 1)
        if loads_anew:
            await rig.loader.load("m")
        unloads = [asyncio.ensure_future(rig.loader.unload("m")) for _ in range(2)]
        await asyncio.sleep(0)  # they have asked from their first steps
        # What answers at once has answered when what comes behind it has: a model has one change at a time.
        rig.write("m", "broken")
        with pytest.raises(ServingError, match="it is broken"):
            await rig.loader.load("m")
        assert [unload.done() for unload in unloads] == [False, False]
        rig.backend.running.open()
        await asyncio.gather(*unloads)
        assert (await end).state is JobState.FINISHED


async def test_a_model_may_be_loaded_while_it_drains(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        rig.backend.running.close()
        end = rig.submit()[1]
        await asyncio.to_thread(rig.backend.running.wait_held, 1)
        unloading = asyncio.ensure_future(rig.loader.unload("m"))
        await settled(rig, {"m/1": "draining"})
        await rig.loader.load("m")
        rig.backend.running.open()
        await unloading
        assert (await end).state is JobState.FINISHED
        assert rig.states() == {"m/1": "ready"}


async def test_a_version_that_goes_while_it_drains_is_forgotten(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        rig.backend.running.close()
        end = rig.submit()[1]
        unloading = asyncio.ensure_future(rig.loader.unload("m"))
        await settled(rig, {"m/1": "draining"})
        rig.remove("m")
        await rig.loader.sync()
        assert rig.states() == {}
        rig.backend.running.open()
        await unloading
        assert (await end).state is JobState.FINISHED
        assert rig.states() == {}


@pytest.mark.parametrize("name", ["x", ""])
async def test_a_model_that_is_not_in_the_repository_cannot_be_loaded(tmp_path: Path, name: str) -> None:
    async with a_rig(tmp_path, "m") as rig:
        with pytest.raises(ServingError) as caught:
            await rig.loader.load(name)
        assert caught.value.code is Code.MODEL_NOT_FOUND
        assert caught.value.message == f"failed to load '{name}', failed to poll from model repository"
        await rig.loader.unload(name)


async def test_a_load_goes_on_when_its_caller_has_gone(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.backend.gate.close()
        loading = asyncio.ensure_future(rig.loader.load("m"))
        await asyncio.to_thread(rig.backend.gate.wait_held, 1)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        rig.backend.gate.open()
        await settled(rig, {"m/1": "ready"})


async def test_a_load_that_fails_when_its_caller_has_gone_is_no_error_of_the_loop(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        rig.write("m", "broken")
        rig.backend.gate.close()
        loading = asyncio.ensure_future(rig.loader.load("m"))
        await asyncio.to_thread(rig.backend.gate.wait_held, 1)
        loading.cancel()
        rig.backend.gate.open()
        await settled(rig, {"m/1": "failed"})
        await until(lambda: repr(rig.loader) == "<Loader: 0 changes>")
        gc.collect()
        assert errors == []


async def test_an_unload_that_waits_its_turn_is_done_when_its_caller_has_gone(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.backend.gate.close()
        loading = asyncio.ensure_future(rig.loader.load("m"))
        await asyncio.to_thread(rig.backend.gate.wait_held, 1)
        unloading = asyncio.ensure_future(rig.loader.unload("m"))
        await asyncio.sleep(0)  # it has asked from its first step
        unloading.cancel()
        rig.backend.gate.open()
        await loading
        await settled(rig, {"m/1": "unloaded"})


async def test_a_load_s_settings_lie_over_the_model_s_own_until_the_next(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("m", version=2)
        (tmp_path / "m/inferwire.toml").write_text("slots = 5\npriority = 2\n")
        await rig.loader.load("m", {"slots": 3, "version_policy": "all"})
        models = [rig.catalogue.find("m", version).require() for version in ("1", "2")]
        assert [(model.slots, model.options.priority) for model in models] == [(3, 2), (3, 2)]
        await rig.loader.sync()
        assert [rig.catalogue.find("m", version).require() for version in ("1", "2")] == models
        with pytest.raises(ServingError, match=r"instance_group\.count is 0, expected"):
            await rig.loader.load("m", {"slots": 0})
        assert [rig.catalogue.find("m", version).require() for version in ("1", "2")] == models
        await rig.loader.load("m")
        await settled(rig, {"m/2": "ready"})
        assert rig.catalogue.find("m").require().slots == 5


async def test_a_mistake_of_a_load_is_not_the_file_s(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        with pytest.raises(
            ServingError, match=r"version 1: what it is loaded with: input\.dims\.x is \[-7\], expected"
        ):
            await rig.loader.load("m", {"shapes": {"x": [-7]}})
        (tmp_path / "m/inferwire.toml").write_text("slots = 5\n[shapes]\nx = [-8]\ny = [-9]\n")
        with pytest.raises(ServingError) as caught:
            await rig.loader.load("m", {"slots": 0, "shapes": {"x": [-7]}, "colour": 1})
        loaded_with, file = caught.value.message.split("; m/inferwire.toml: ")
        assert "what it is loaded with: 'colour' is no setting, expected device, " in loaded_with
        assert "; instance_group.count is 0, expected a whole number" in loaded_with
        assert "; input.dims.x is [-7], expected a list" in loaded_with
        assert file.startswith("shapes.y is [-9], expected a list")


async def test_loads_at_once_have_each_their_own_settings_and_answer(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        bad, good = await asyncio.gather(
            rig.loader.load("m", {"slots": 0}), rig.loader.load("m", {"slots": 3}), return_exceptions=True
        )
        assert isinstance(bad, ServingError)
        assert good is None
        assert rig.catalogue.find("m").require().slots == 3
        assert rig.backend.compiled == 2


async def test_a_load_with_settings_that_failed_leaves_nothing_for_a_sync_to_do(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        with pytest.raises(ServingError, match="count is 0"):
            await rig.loader.load("m", {"slots": 0})
        assert not await rig.loader.sync()
        assert rig.backend.compiled == 1


async def test_a_load_of_which_one_version_fails_changes_none(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        old = rig.catalogue.find("m").require()
        rig.write("m", "broken", version=2)
        with pytest.raises(ServingError) as caught:
            await rig.loader.load("m", {"slots": 3, "version_policy": "all"})
        assert caught.value.message == "failed to load 'm' version 2: it is broken"
        assert rig.states() == {"m/1": "ready", "m/2": "failed"}
        served = rig.catalogue.find("m")
        assert (served.require(), served.reason) == (old, "the reload failed: version 2 failed: it is broken")
        assert rig.engine.devices[0].models == (old,)


async def test_versions_that_took_no_jobs_fail_together_and_are_tried_by_the_next_sync(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("m", "broken", version=2)
        (tmp_path / "m/inferwire.toml").write_text('version_policy = "all"')
        with pytest.raises(ServingError, match="failed to load 'm' version 2: it is broken"):
            await rig.loader.load("m")
        assert rig.refusal("m", "1")[1] == "failed to load 'm' version 1: version 2 failed: it is broken"
        assert rig.engine.devices[0].models == ()
        await rig.loader.sync()
        assert rig.states() == {"m/1": "ready", "m/2": "failed"}


async def test_a_load_looks_for_the_model_that_it_names(tmp_path: Path) -> None:
    looked_for: list[str | None] = []

    def scan(overrides: Overrides, name: str | None) -> list[Entry]:
        looked_for.append(name)
        return Repository(tmp_path, Latest()).served(overrides, name)

    async with a_rig(tmp_path, "a", "b", scan=scan) as rig:
        await rig.loader.sync()
        await rig.loader.load("b")
        assert looked_for == [None, "b"]


async def test_a_sync_that_looked_before_a_load_does_not_undo_it(tmp_path: Path) -> None:
    has_looked, looks = Gate(), count()

    def scan(overrides: Overrides, name: str | None) -> list[Entry]:
        found = Repository(tmp_path, Latest()).served(overrides, name)
        if next(looks) == 1:
            has_looked.pass_through(lambda: False)
        return found

    async with a_rig(tmp_path, "m", scan=scan) as rig:
        await rig.loader.sync()
        has_looked.close()
        syncing = asyncio.ensure_future(rig.loader.sync())
        await asyncio.to_thread(has_looked.wait_held, 1)
        await rig.loader.load("m", {"slots": 3})
        loaded = rig.catalogue.find("m").require()
        has_looked.open()
        await syncing
        assert rig.catalogue.find("m").require() is loaded


async def test_a_sync_looks_once_more_for_all_models_that_have_been_loaded_meanwhile(tmp_path: Path) -> None:
    is_looking, looks = Gate(), count()

    def scan(overrides: Overrides, name: str | None) -> list[Entry]:
        if next(looks) == 1:
            is_looking.pass_through(lambda: False)
        return Repository(tmp_path, Latest()).served(overrides, name)

    async with a_rig(tmp_path, "a", "b", "c", scan=scan) as rig:
        rig.backend.gate.close()
        is_looking.close()
        loading = asyncio.ensure_future(rig.loader.sync())
        await asyncio.to_thread(rig.backend.gate.wait_held, 3)
        syncing = asyncio.ensure_future(rig.loader.sync())
        await asyncio.to_thread(is_looking.wait_held, 1)
        is_looking.open()
        rig.backend.gate.open()
        await asyncio.gather(loading, syncing)
        assert rig.states() == dict.fromkeys(["a/1", "b/1", "c/1"], "ready")
        assert (next(looks), rig.backend.compiled) == (3, 3)


@pytest.mark.parametrize(("number", "error"), [(ESTALE, ServingError), (EMFILE, OSError)])
async def test_files_that_the_system_tells_nothing_of_for_the_moment_fail_a_load_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    def fingerprint(entry: Entry) -> None:
        raise OSError(number, os.strerror(number), str(entry.location))

    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        with monkeypatch.context() as patched:
            patched.setattr(Entry, "fingerprint", fingerprint)
            with pytest.raises(error, match=re.escape(f"{tmp_path}/m/1")):
                await rig.loader.load("m")
        assert rig.states() == {"m/1": "ready"}
        await rig.loader.load("m")
