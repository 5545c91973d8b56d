"""A worker that is told to stop while it starts."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest
from tests.waiting import LIMIT_S

from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.crew import Crew
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.server import serve
from inferwire_server.settings import Settings
from inferwire_server.workers.followers import Followers, WorkerEnded
from inferwire_server.workers.processes import Workers
from inferwire_server.workers.role import Alone


class LoadsForLong(FakeBackend):
    def __init__(self) -> None:
        super().__init__({"m": FakeModel(echo_spec("m"))})
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def compile(self, source: Source, options: ModelOptions) -> FakeModel:
        self.has_begun.set()
        self.may_end.wait()
        return super().compile(source, options)


class NeverReady(Alone):
    async def lets_work(self) -> None:
        raise AssertionError("a worker that is told to stop before it has loaded is never ready")


async def test_a_follower_that_is_told_to_stop_neither_loads_to_the_end_nor_opens_the_ports(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    backend, stop = LoadsForLong(), asyncio.Event()
    settings = Settings(model_repository=tmp_path, http_port=0, grpc_port=0, drain_delay_s=10 * LIMIT_S)
    follower = Workers(Crew(1, 2, tmp_path, "token"), frozenset({0}))
    try:
        async with asyncio.timeout(LIMIT_S):
            serving = asyncio.ensure_future(serve(settings, backend, stop, follower, NeverReady()))
            await asyncio.to_thread(backend.has_begun.wait)
            stop.set()
            assert not (await serving).has_stopped, "it is to end without the load, which goes on"
    finally:
        backend.may_end.set()


async def test_a_follower_is_told_more_than_goes_through_a_pipe_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    twice = Settings(models=("m=a", "m=a"), server_name="long " * 20_000)
    async with Followers(Workers(Crew.of(2), frozenset({0})), 0.0) as followers, asyncio.timeout(LIMIT_S):
        followers.begin(twice)
        with pytest.raises(WorkerEnded, match=r"^worker 2 has ended with exit code 1$"):
            await followers.until_one_ends()
    assert "--model names 'm' twice" in capfd.readouterr().err


async def test_one_that_cannot_be_started_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(OSError, match="worker 2 cannot be started: No such file or directory"):
        async with Followers(Workers(Crew.of(3)), 0.0):
            pass
