"""Loading, reloading and unloading: what serves is never lost, and one broken model leaves the others alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.model_states import ModelState
from inferwire_server.core.scheduling.job import Job, JobState, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.core.versions import Latest
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.repository.catalogue import Catalogue
from inferwire_server.repository.entries import Entry, Fingerprint, Overrides
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.loader import Loader
from inferwire_server.repository.model_settings import ModelSettings
from inferwire_server.repository.tallies import Tallies

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))


class ScriptedBackend(FakeBackend):
    """Compiles as the model's file says, when its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.running = Gate()
        self.compiled = 0
        self.ran: list[Tensor] = []

    def compile(self, source: Source, options: ModelOptions) -> FakeModel:
        self.gate.pass_through(lambda: False)
        content = source.path.read_text()
        if content == "odd":
            raise KeyError("an error no runtime should raise")
        if content == "broken":
            raise ServingError(Code.MODEL_FAILED, "it is broken")
        self.compiled += 1
        return FakeModel(echo_spec(options.name), self._compute, self.running)

    def _compute(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        self.ran.extend(inputs)
        return tuple(inputs)


@dataclass
class Rig:
    """A loader over a folder that a test writes."""

    root: Path
    backend: ScriptedBackend
    engine: Engine
    catalogue: Catalogue
    loader: Loader
    times: count[int] = field(default_factory=lambda: count(1))

    def write(self, name: str, content: str = "", version: int = 1) -> None:
        folder = self.root / name / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_text(content + " " * next(self.times) if content not in KINDS else content)

    def remove(self, name: str, version: int = 1) -> None:
        (self.root / name / str(version) / "model.onnx").unlink()
        (self.root / name / str(version)).rmdir()

    def states(self) -> dict[str, str]:
        return {f"{served.name}/{served.version}": served.state.value for served in self.catalogue.statuses()}

    def submit(self, name: str = "m") -> tuple[Job, asyncio.Future[Job]]:
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        model = self.catalogue.find(name).require()
        job = self.engine.submit(model, Submission(Work((ROW,), (0,))), end.set_result)
        return job, end

    def refusal(self, name: str, version: str = "") -> tuple[Code, str]:
        with pytest.raises(ServingError) as caught:
            self.catalogue.find(name, version).require()
        return caught.value.code, caught.value.message


KINDS = ("broken", "odd")


Scan = Callable[[Overrides], list[Entry]]


@asynccontextmanager
async def a_rig(root: Path, *names: str, scan: Scan | None = None) -> AsyncGenerator[Rig, None]:
    backend, catalogue = ScriptedBackend(), Catalogue()
    scan = scan or Repository(root, Latest()).served
    with capture_logs():
        async with (
            Engine(backend, QueueOptions(), Tallies().of) as engine,
            Loader(engine, catalogue, scan, ModelOptions("", slots=2)) as loader,
        ):
            rig = Rig(root, backend, engine, catalogue, loader)
            for name in names:
                rig.write(name)
            yield rig
            backend.gate.open()
            backend.running.open()


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
            "unset/inferwire.toml: slots is 0, expected a whole number from 1 up to 2147483647"
        )
        assert rig.catalogue.has_failed


async def test_a_model_is_loaded_by_its_own_settings(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m/inferwire.toml").write_text("slots = 5\npriority = 2\n")
        await rig.loader.sync()
        model = rig.catalogue.find("m").require()
        assert (model.slots, model.priority) == (5, 2)


class SlowEntry(Entry):
    """A version whose files lie on a slow file system."""

    def _stand(self) -> None:
        assert threading.current_thread() is not threading.main_thread(), "the loop stands still"

    def settings(self) -> ModelSettings:
        self._stand()
        return super().settings()

    def model_file(self) -> Path:
        self._stand()
        return super().model_file()

    def fingerprint(self) -> Fingerprint:
        self._stand()
        return super().fingerprint()


async def test_files_are_looked_at_on_threads(tmp_path: Path) -> None:
    def scan(_: Overrides) -> list[Entry]:
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


async def test_a_model_that_does_not_warm_up_has_failed(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        (tmp_path / "m/inferwire.toml").write_text("[warm_up]")
        await rig.loader.sync()
        sentence = "failed to load 'm' version 1: it does not warm up: input 'x' takes shapes [?,4]"
        assert rig.refusal("m")[1].startswith(sentence)


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
        assert before not in rig.engine.models


async def test_a_repaired_model_becomes_ready(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        rig.write("m", "broken")
        await rig.loader.sync()
        assert rig.states() == {"m/1": "failed"}
        rig.write("m", "repaired")
        await rig.loader.sync()
        assert rig.states() == {"m/1": "ready"}


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
        assert (served.state, served.reason) == (ModelState.READY, "the reload failed: it is broken")
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


async def settled(rig: Rig, states: dict[str, str]) -> None:
    """Wait until the catalogue says this."""
    changed = asyncio.Event()
    rig.catalogue.subscribe(changed.set)
    async with asyncio.timeout(10):
        while rig.states() != states:
            await changed.wait()
            changed.clear()


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
        assert rig.engine.models == ()
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
        async with asyncio.timeout(10):
            while len(rig.engine.devices[0].models) > 1:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)


async def test_a_load_s_settings_lie_over_the_model_s_own_until_the_next(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("m", version=2)
        (tmp_path / "m/inferwire.toml").write_text("slots = 5\npriority = 2\n")
        await rig.loader.load("m", {"slots": 3, "version_policy": "all"})
        models = [rig.catalogue.find("m", version).require() for version in ("1", "2")]
        assert [(model.slots, model.priority) for model in models] == [(3, 2), (3, 2)]
        await rig.loader.sync()
        assert [rig.catalogue.find("m", version).require() for version in ("1", "2")] == models
        with pytest.raises(ServingError, match="slots is 0, expected"):
            await rig.loader.load("m", {"slots": 0})
        assert [rig.catalogue.find("m", version).require() for version in ("1", "2")] == models
        await rig.loader.load("m")
        assert rig.states() == {"m/2": "ready"}
        assert rig.catalogue.find("m").require().slots == 5


async def test_a_mistake_of_a_load_is_not_the_file_s(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        with pytest.raises(ServingError, match=r"version 1: what it is loaded with: shapes\.x is \[-7\], expected"):
            await rig.loader.load("m", {"shapes": {"x": [-7]}})
        (tmp_path / "m/inferwire.toml").write_text("slots = 5\n[shapes]\nx = [-8]\ny = [-9]\n")
        with pytest.raises(ServingError) as caught:
            await rig.loader.load("m", {"slots": 0, "shapes": {"x": [-7]}, "colour": 1})
        loaded_with, file = caught.value.message.split("; m/inferwire.toml: ")
        assert "what it is loaded with: 'colour' is no setting, expected device, " in loaded_with
        assert "; slots is 0, expected a whole number" in loaded_with
        assert "; shapes.x is [-7], expected a list" in loaded_with
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
        with pytest.raises(ServingError, match="slots is 0"):
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
        assert rig.engine.models == (old,)


async def test_versions_that_took_no_jobs_fail_together_and_are_tried_by_the_next_sync(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        rig.write("m", "broken", version=2)
        (tmp_path / "m/inferwire.toml").write_text('version_policy = "all"')
        with pytest.raises(ServingError, match="failed to load 'm' version 2: it is broken"):
            await rig.loader.load("m")
        assert rig.refusal("m", "1")[1] == "failed to load 'm' version 1: version 2 failed: it is broken"
        assert rig.engine.models == ()
        await rig.loader.sync()
        assert rig.states() == {"m/1": "ready", "m/2": "failed"}


async def test_a_sync_that_looked_before_a_load_does_not_undo_it(tmp_path: Path) -> None:
    has_looked, looks = Gate(), count()

    def scan(overrides: Overrides) -> list[Entry]:
        found = Repository(tmp_path, Latest()).served(overrides)
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
