"""A model is unloaded when nobody uses it, whatever goes wrong as its keeper is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.waiting import LIMIT_S

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.engine.models import Model
from inferwire_server.tallies import Tallies


class TroubledKeeper:
    """A keeper that fails the first time it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.has_unloaded = asyncio.Event()

    async def may_unload(self, model: Model) -> bool:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("can't start new thread")
        return True

    def unloaded(self, model: Model, reason: str) -> None:
        self.has_unloaded.set()

    def loaded_again(self, model: Model) -> None:
        """Nothing is told."""


async def test_a_keeper_that_failed_is_asked_again() -> None:
    keeper, backend = TroubledKeeper(), FakeBackend({"m": FakeModel(echo_spec("m"))})
    with capture_logs() as logged:
        async with Engine(backend, QueueOptions(), Tallies().of) as engine, asyncio.timeout(LIMIT_S):
            model = await engine.load(Source(Path("m.xml")), ModelOptions("m", idle_unload_s=0.001), keeper=keeper)
            await keeper.has_unloaded.wait()
            assert not model.is_loaded
    failures = [entry for entry in logged if entry["log_level"] == "error"]
    assert [(entry["event"], entry["model"]) for entry in failures] == [("idle model not looked at", "m")]
    assert keeper.asked == 2


class Watcher(TroubledKeeper):
    """A keeper that lets a model go whenever it is asked."""

    async def may_unload(self, model: Model) -> bool:
        return True


async def test_a_job_submitted_as_a_load_fails_has_the_model_loaded_once_more() -> None:
    models, keeper = {"m": FakeModel(echo_spec("m"))}, Watcher()
    submission = Submission(Work((Tensor(BY_NAME["f32"], (1, 4), bytes(16)),), (0,)))
    with capture_logs():
        async with Engine(FakeBackend(models), QueueOptions(), Tallies().of) as engine, asyncio.timeout(LIMIT_S):
            options = ModelOptions("m", idle_unload_s=0.001)
            model = await engine.load(Source(Path("m.xml")), options, keeper=keeper)
            await keeper.has_unloaded.wait()
            gone = models.pop("m")
            end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()

            def try_again(_: Job) -> None:
                models["m"] = gone
                engine.submit(model, submission, end.set_result)

            engine.submit(model, submission, try_again)
            assert (await end).error is None


@pytest.mark.parametrize("fails", [False, True])
async def test_each_line_of_the_log_says_of_which_version_it_is(fails: bool) -> None:
    models = {"m": FakeModel(echo_spec("m"))}
    keeper = TroubledKeeper()
    with capture_logs() as logged:
        async with Engine(FakeBackend(models), QueueOptions(), Tallies().of) as engine, asyncio.timeout(LIMIT_S):
            options = ModelOptions("m", idle_unload_s=0.001)
            model = await engine.load(Source(Path("m.xml")), options, "7", keeper=keeper)
            await keeper.has_unloaded.wait()
            if fails:
                del models["m"]
            end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
            tensor = Tensor(BY_NAME["f32"], (1, 4), bytes(16))
            engine.submit(model, Submission(Work((tensor,), (0,))), end.set_result)
            assert ((await end).error is not None) is fails
    events = ["idle model not looked at", "model unloaded", "model failed" if fails else "model ready"]
    assert [entry["event"] for entry in logged[:3]] == events
    assert {(entry["model"], entry["version"]) for entry in logged} == {("m", "7")}
