"""A worker that hangs is told of once, and ended in the end; one that is only late is not."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Iterable, MutableMapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.child_processes import followers_of
from tests.waiting import LIMIT_S, until

from inferwire_cli.server_process import free_ports
from inferwire_server.openvino_backend.compile_cache import alone_in
from inferwire_server.settings import Settings
from inferwire_server.workers.followers import Followers, WorkerEnded
from inferwire_server.workers.hang_detection import HangLimits, attend
from inferwire_server.workers.processes import workers_of
from inferwire_server.workers.socket_folder import socket_folder

DIGITS = Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp"
SHORT = HangLimits(round_s=0.001, until_told=3, until_ended=6)


class Worker:
    """Number 2, silent for so many rounds before each answer, and for ever after the last."""

    number = 2

    def __init__(self, silences: Iterable[int]) -> None:
        self._silences = list(silences)
        self.asked = 0
        self.is_killed = False

    def ask(self) -> None:
        self.asked += 1

    async def answer(self) -> None:
        if not self._silences or self._silences[0] > 0:
            if self._silences:
                self._silences[0] -= 1
            await asyncio.Event().wait()
        del self._silences[0]

    async def ready(self) -> None: ...

    def kill(self) -> None:
        self.is_killed = True


async def attended(*silences: int) -> list[tuple[str, float]]:
    """Attend a worker until it is ended, and give what the log says of it before."""
    worker = Worker(silences)
    with capture_logs() as logged:
        async with asyncio.timeout(LIMIT_S):
            await attend(worker, SHORT)
    assert worker.is_killed
    assert worker.asked == len(silences) + 1, "it is asked again after an answer, and not before"
    assert {line["number"] for line in logged} == {2}
    assert (logged[-1]["event"], logged[-1]["silent_s"]) == ("a worker hangs and is killed", 0.006)
    told = [(line["event"], line["silent_s"]) for line in logged[:-1]]
    assert told[-1] == ("a worker does not answer", 0.003)
    return told[:-1]


async def test_a_worker_that_answers_is_asked_again_and_again_and_nothing_is_told() -> None:
    assert await attended(0, 0, 1, 0, 2, 2, 0) == []


async def test_a_worker_that_is_late_is_told_of_once_and_again_when_it_answers() -> None:
    late = ("a worker does not answer", 0.003)
    assert await attended(3, 0, 5) == [
        late,
        ("a worker answers again", 0.003),
        late,
        ("a worker answers again", 0.005),
    ]


@asynccontextmanager
async def a_follower(settings: Settings, temporary: Path, **limits: float) -> AsyncGenerator[tuple[Followers, int]]:
    """Start a server's second worker, attend to it with a limits, and give its process id beside it."""
    http_port, grpc_port = free_ports(2)
    settings = replace(settings, model_repository=DIGITS, device="CPU", http_port=http_port, grpc_port=grpc_port)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", None)
        async with (
            asyncio.timeout(LIMIT_S),
            socket_folder(workers_of(Settings(workers=2))) as workers,
            Followers(workers, 0, replace(HangLimits(), **limits)) as followers,
        ):
            followers.begin(settings)
            attending = asyncio.ensure_future(followers.attend())
            await until(lambda: followers_of(os.getpid()))
            yield followers, followers_of(os.getpid())[0]
            attending.cancel()


def of_workers(logged: list[MutableMapping[str, Any]]) -> list[str]:
    return [line["event"] for line in logged]


async def test_a_server_s_worker_that_hangs_is_told_of_until_it_answers_again(tmp_path: Path) -> None:
    with capture_logs() as logged:
        async with a_follower(Settings(), tmp_path, round_s=0.05, until_told=2, until_ended=9999) as (
            followers,
            follower,
        ):
            await followers.are_ready()
            followers.take_work()
            for number, event in (
                (signal.SIGSTOP, "a worker does not answer"),
                (signal.SIGCONT, "a worker answers again"),
            ):
                logged.clear()
                os.kill(follower, number)
                await logged_event(logged, event)


async def test_a_worker_that_hangs_as_it_starts_ends_the_server_as_one_that_was_killed(tmp_path: Path) -> None:
    with capture_logs() as logged:
        async with a_follower(Settings(), tmp_path, round_s=0.01, until_told=2, until_ended=9) as (followers, follower):
            os.kill(follower, signal.SIGSTOP)
            with pytest.raises(WorkerEnded, match="worker 2 has been ended by SIGKILL"):
                await followers.until_one_ends()
    assert of_workers(logged) == ["a worker does not answer", "a worker hangs and is killed"]


async def test_a_worker_that_loads_for_long_is_told_of_and_waited_for(tmp_path: Path) -> None:
    settings = Settings(cache_dir=tmp_path / "cache")
    # It loads when it may compile into the cache.
    with capture_logs() as logged, ExitStack() as loading:
        loading.enter_context(alone_in(tmp_path / "cache"))
        async with a_follower(settings, tmp_path, late_s=0.01) as (followers, _):
            waiting = asyncio.ensure_future(followers.are_ready())
            await logged_event(logged, "a worker is still not ready")
            assert not waiting.done()
            loading.close()
            await waiting
    assert of_workers(logged) == ["a worker is still not ready"]
    assert (logged[0]["number"], logged[0]["waited_s"]) == (2, 0.01)


async def logged_event(logged: list[MutableMapping[str, Any]], event: str) -> None:
    """Wait until something has been logged."""
    await until(lambda: event in of_workers(logged))
