"""Files that change while they are served: what serves is never lost, and jobs end on the model they began with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.conftest import without_rights
from tests.repository.rig import a_rig, settled
from tests.waiting import until

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Job, JobState
from inferwire_server.core.version_states import VersionState
from inferwire_server.errors import ServingError


async def test_what_has_not_changed_is_left_alone(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("broken", "broken")
        await rig.loader.sync()
        model = rig.catalogue.find("m").require()
        await rig.loader.sync()
        assert rig.catalogue.find("m").require() is model
        assert rig.backend.compiled == 1


@pytest.mark.parametrize("changed", ["m/1/model.onnx", "m/1/model.bin", "m/inferwire.toml"])
async def test_a_changed_file_of_a_model_loads_it_anew(tmp_path: Path, changed: str) -> None:
    async with a_rig(tmp_path, "m", "n") as rig:
        await rig.loader.sync()
        before, other = rig.catalogue.find("m").require(), rig.catalogue.find("n").require()
        (tmp_path / changed).write_text("# another" if changed.endswith("toml") else "another")
        await rig.loader.sync()
        assert rig.catalogue.find("m").require() is not before
        assert rig.catalogue.find("n").require() is other
        assert before not in rig.engine.devices[0].models


async def test_a_version_of_which_some_files_alone_have_changed_is_followed_once_they_stay_so(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m", "n") as rig:
        graph, weights = tmp_path / "m/1/model.onnx", tmp_path / "m/1/model.bin"
        weights.write_text("weights")
        await rig.loader.sync()
        before = rig.catalogue.find("m").require()
        waits = 0

        async def wait() -> None:
            nonlocal waits
            waits += 1
            assert rig.catalogue.find("m").require() is before
            assert rig.backend.compiled == 3, "the other model, of which all files have changed, waits"
            if waits == 1:
                graph.write_text("a third graph")

        graph.write_text("another graph")
        rig.write("n", "another")
        await rig.loader.follow(wait)
        assert waits == 2
        assert rig.catalogue.find("m").require() is not before


async def test_a_version_of_which_the_other_files_change_meanwhile_is_followed_when_they_have(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        graph, weights = tmp_path / "m/1/model.onnx", tmp_path / "m/1/model.bin"
        weights.write_text("weights")
        await rig.loader.sync()
        waits = 0

        async def wait() -> None:
            nonlocal waits
            waits += 1
            assert rig.backend.compiled == 1
            weights.write_text("other weights")

        graph.write_text("another graph")
        await rig.loader.follow(wait)
        assert (waits, rig.backend.compiled) == (1, 2)


@pytest.mark.parametrize("name", ["m/1/model.onnx", "m/1/model.bin"])
async def test_what_a_caller_asks_for_does_not_wait_for_other_files(tmp_path: Path, name: str) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m/1/model.bin").write_text("weights")
        await rig.loader.sync()
        (tmp_path / name).write_text("another")
        await rig.loader.sync()
        assert rig.backend.compiled == 2


@pytest.mark.parametrize("layout", ["m/1/model.xml m/1/model.bin", "m/model.xml m/model.bin", "m.xml m.bin"])
async def test_settings_and_what_does_not_serve_are_followed_at_once(tmp_path: Path, layout: str) -> None:
    async def wait() -> None:
        raise AssertionError("it waits")

    async with a_rig(tmp_path) as rig:
        graph, weights = (tmp_path / name for name in layout.split())
        graph.parent.mkdir(parents=True, exist_ok=True)
        graph.write_text("broken")
        await rig.loader.follow(wait)
        weights.write_text("weights")
        await rig.loader.follow(wait)
        assert rig.states() == {"m/1": "failed"}
        graph.write_text("a graph")
        await rig.loader.follow(wait)
        assert rig.states() == {"m/1": "ready"}
        if layout.startswith("m/"):
            (tmp_path / "m/inferwire.toml").write_text("slots = 3")
            await rig.loader.follow(wait)
            assert rig.catalogue.find("m").require().slots == 3
        weights.write_text("other weights")
        with pytest.raises(AssertionError, match="it waits"):
            await rig.loader.follow(wait)


async def test_a_repository_that_cannot_be_read_is_known_until_it_can_and_what_is_loaded_serves(tmp_path: Path) -> None:
    async with a_rig(tmp_path / "models", "m") as rig:
        await rig.loader.sync()
        rig.root.rename(tmp_path / "elsewhere")
        for _ in range(2):
            with pytest.raises(ServingError, match="does not exist"):
                await rig.loader.follow()
            assert not rig.loader.is_readable
        assert rig.states() == {"m/1": "ready"}
        (tmp_path / "elsewhere").rename(rig.root)
        await rig.loader.follow()
        assert rig.loader.is_readable


@pytest.mark.parametrize("content", ["broken", "odd"])
async def test_the_log_says_of_a_model_that_does_not_load_whether_what_served_serves_on(
    tmp_path: Path, content: str
) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("new", content)
        with capture_logs() as logged:
            await rig.loader.sync()
            rig.write("m", content)
            await rig.loader.sync()
        said = [
            (entry["event"], entry["model"], entry["log_level"]) for entry in logged if "error" in entry["log_level"]
        ]
        assert sorted({*said}) == [
            ("model failed", "new", "error"),
            ("reload failed, the model from before serves on", "m", "error"),
        ]


async def test_a_repaired_model_becomes_ready(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        rig.write("m", "broken")
        await rig.loader.sync()
        assert rig.states() == {"m/1": "failed"}
        rig.write("m", "repaired")
        await rig.loader.sync()
        assert rig.states() == {"m/1": "ready"}


async def test_a_model_whose_rival_has_gone_becomes_ready(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m.onnx").touch()
        await rig.loader.sync()
        assert "version 1 of model 'm' is in the repository twice" in rig.refusal("m")[1]
        (tmp_path / "m.onnx").unlink()
        await rig.loader.sync()
        assert rig.states() == {"m/1": "ready"}


@pytest.mark.parametrize("closed", ["m/1/model.onnx", "m/inferwire.toml"])
async def test_a_model_whose_files_may_be_read_now_becomes_ready(readable_by_all: Path, closed: str) -> None:
    async with a_rig(readable_by_all, "m") as rig:
        (readable_by_all / "m/inferwire.toml").touch()
        (readable_by_all / closed).chmod(0o000)
        with without_rights():
            await rig.loader.sync()
            assert rig.states() == {"m/1": "failed"}
        (readable_by_all / closed).chmod(0o644)
        with without_rights():
            await rig.loader.sync()
            assert rig.states() == {"m/1": "ready"}


async def test_a_model_whose_folder_cannot_be_read_any_more_keeps_what_serves(readable_by_all: Path) -> None:
    async with a_rig(readable_by_all, "m") as rig:
        rig.write("m", version=2)
        (readable_by_all / "m/inferwire.toml").write_text('version_policy = "all"')
        await rig.loader.sync()
        (readable_by_all / "m").chmod(0o000)
        try:
            with without_rights():
                await rig.loader.sync()
            assert rig.states() == {"m/1": "ready", "m/2": "ready"}
            assert rig.catalogue.find("m", "1").load_failed
        finally:
            (readable_by_all / "m").chmod(0o755)
        await rig.loader.sync()
        assert rig.states() == {"m/1": "ready", "m/2": "ready"}
        assert not rig.catalogue.find("m", "1").load_failed


async def test_a_reload_serves_the_old_model_until_the_new_one_is_warm(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.load("m")
        old = rig.catalogue.find("m").require()
        rig.backend.gate.close()
        reload = asyncio.ensure_future(rig.loader.load("m"))
        await asyncio.to_thread(rig.backend.gate.wait_held, 1)
        assert rig.states() == {"m/1": "ready"}
        assert rig.catalogue.find("m").require() is old
        assert (await rig.submit()[1]).state is JobState.FINISHED
        rig.backend.gate.open()
        await reload
        assert rig.catalogue.find("m").require() is not old


async def test_jobs_of_the_old_model_finish_on_it(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.load("m")
        old = rig.catalogue.find("m").require()
        rig.backend.running.close()
        ends = [rig.submit()[1] for _ in range(5)]
        await asyncio.to_thread(rig.backend.running.wait_held, 2)
        await rig.loader.load("m")
        new = rig.catalogue.find("m").require()
        late = rig.submit()[0]
        assert new is not old
        assert set(old.device.models) == {old, new}
        rig.backend.running.open()
        jobs = await asyncio.gather(*ends)
        assert [(job.state, job.model) for job in jobs] == [(JobState.FINISHED, old)] * 5
        assert late.model is new


async def test_a_broken_new_model_leaves_the_old_one_serving_and_says_so(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        old = rig.catalogue.find("m").require()
        rig.write("m", "broken")
        with pytest.raises(ServingError) as caught:
            await rig.loader.load("m")
        assert caught.value.code is Code.MODEL_FAILED
        assert caught.value.message == "failed to load 'm' version 1: it is broken"
        served = rig.catalogue.find("m")
        assert (served.state, served.reason) == (VersionState.READY, "the reload failed: it is broken")
        assert (served.takes_jobs, served.load_failed) == (True, True)
        assert served.require() is old
        assert (await rig.submit()[1]).state is JobState.FINISHED
        rig.write("m", "good")
        await rig.loader.sync()
        served = rig.catalogue.find("m")
        assert (served.reason, served.load_failed, served.model is old) == ("", False, False)


async def test_a_new_version_takes_over_and_the_one_before_goes(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        rig.write("m", version=2)
        rig.backend.gate.close()
        syncing = asyncio.ensure_future(rig.loader.sync())
        await asyncio.to_thread(rig.backend.gate.wait_held, 1)
        assert rig.states() == {"m/1": "ready", "m/2": "loading"}
        assert rig.catalogue.find("m").version == "1"
        rig.backend.gate.open()
        await syncing
        assert rig.catalogue.find("m").version == "2"
        await settled(rig, {"m/2": "ready"})


async def test_a_broken_new_version_leaves_the_one_before_serving(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        rig.write("m", "broken", version=2)
        await rig.loader.sync()
        assert rig.states() == {"m/1": "ready", "m/2": "failed"}
        assert not rig.catalogue.has_failed
        assert rig.catalogue.find("m").version == "1"
        rig.write("m", "good", version=2)
        await rig.loader.sync()
        await settled(rig, {"m/2": "ready"})


@pytest.mark.parametrize("mistake", ['version_policy = "all"\nslots = "no"', 'version_policy = "all'])
async def test_a_mistake_in_its_settings_leaves_all_versions_that_serve(tmp_path: Path, mistake: str) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("m", version=2)
        (tmp_path / "m/inferwire.toml").write_text('version_policy = "all"')
        await rig.loader.sync()
        (tmp_path / "m/inferwire.toml").write_text(mistake)
        await rig.loader.sync()
        assert rig.catalogue.versions("m") == ("1", "2")


async def test_a_policy_that_asks_for_no_version_there_is_leaves_what_serves(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        before = rig.catalogue.find("m").require()
        (tmp_path / "m/inferwire.toml").write_text('version_policy = "3"')
        await rig.loader.sync()
        assert rig.catalogue.find("m").require() is before
        with pytest.raises(ServingError, match="it has no version but 1, expected one that its version policy asks"):
            await rig.loader.load("m")
        assert rig.catalogue.find("m").require() is before
        rig.write("m", version=3)
        await rig.loader.sync()
        await settled(rig, {"m/3": "ready"})


async def test_a_broken_version_that_has_gone_is_forgotten_though_the_next_is_broken_too(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        rig.write("m", "broken")
        await rig.loader.sync()
        rig.remove("m")
        rig.write("m", "broken", version=2)
        await rig.loader.sync()
        assert rig.states() == {"m/2": "failed"}


async def test_a_model_that_has_gone_is_forgotten_when_its_jobs_have_ended(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("broken", "broken")
        await rig.loader.sync()
        rig.backend.running.close()
        end = rig.submit()[1]
        rig.remove("m")
        rig.remove("broken")
        for _ in range(2):
            await rig.loader.sync()
            assert rig.states() == {"m/1": "draining"}
        assert rig.refusal("m") == (Code.MODEL_NOT_READY, "model 'm' version 1 is draining")
        rig.backend.running.open()
        assert (await end).state is JobState.FINISHED
        await settled(rig, {})


async def test_a_version_that_is_back_while_it_drains_is_loaded(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.sync()
        rig.backend.running.close()
        end = rig.submit()[1]
        rig.write("m", version=2)
        await rig.loader.sync()
        assert rig.states() == {"m/1": "draining", "m/2": "ready"}
        rig.remove("m", version=2)
        await rig.loader.sync()
        assert rig.catalogue.find("m", "1").require().version == "1"
        rig.backend.running.open()
        assert (await end).state is JobState.FINISHED
        await settled(rig, {"m/1": "ready"})


async def test_twenty_reloads_under_load_lose_no_job(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        await rig.loader.load("m")
        ended: list[Job] = []
        is_over = False

        async def caller() -> None:
            while not is_over:
                ended.append(await rig.submit()[1])

        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(caller())
            for _ in range(20):
                await rig.loader.load("m")
            is_over = True
        assert {job.state for job in ended} == {JobState.FINISHED}
        assert rig.backend.compiled == 21
        assert len({job.model for job in ended}) > 1
        await until(lambda: len(rig.engine.devices[0].models) == 1)
