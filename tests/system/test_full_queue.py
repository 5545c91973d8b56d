"""A queue of jobs against a server with less room than it has jobs: nothing is lost, and nobody is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from tests.system.proxy import Proxy
from tests.system.servers import save_slow_model
from tests.waiting import wait_until

import inferwire as ov
from inferwire_cli.server_process import HOST, ServerProcess, running_server

JOBS = 24
ROOM = 2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("models")
    save_slow_model(repository, products=1)
    with running_server(repository, "--queue-capacity", str(ROOM)) as running:
        yield running


@pytest.fixture
def queue(server: ServerProcess) -> ov.AsyncInferQueue:
    return ov.AsyncInferQueue(ov.Core(server.grpc_address).served_model("slow"), JOBS)


def refusals(server: ServerProcess) -> float:
    with urlopen(f"http://{server.http_address}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if 'outcome="refused"' in line or "QUEUE_FULL" in line)


def test_every_job_is_run_once(server: ServerProcess, queue: ov.AsyncInferQueue) -> None:
    seen: list[int] = []
    queue.set_callback(lambda _, index: seen.append(index))
    for index in range(3 * JOBS):
        queue.start_async(np.ones(1, np.float32), index)
    queue.wait_all()
    assert sorted(seen) == list(range(3 * JOBS))
    assert refusals(server) > 0


def test_jobs_that_wait_for_room_end_with_the_connection_and_open_none(tmp_path: Path) -> None:
    save_slow_model(tmp_path, products=100)
    with running_server(tmp_path, "--queue-capacity", str(ROOM)) as server, Proxy(server.grpc_port) as proxy:
        core = ov.Core(f"{HOST}:{proxy.port}")
        queue = ov.AsyncInferQueue(core.served_model("slow"), JOBS)
        done, failed = list[int](), list[type[RuntimeError]]()
        queue.set_callback(lambda _, index: done.append(index))
        queue.set_error_callback(lambda _, index, error: failed.append(type(error)))
        for index in range(JOBS):
            queue.start_async(np.ones(1, np.float32), index)
        wait_until(lambda: refusals(server))
        connections = proxy.connections
        core.close()
        queue.wait_all()
        assert (set(failed), len(done) + len(failed)) == ({ov.Cancelled}, JOBS)
        assert proxy.connections == connections
        # What the program begins itself connects again.
        queue.start_async(np.ones(1, np.float32), JOBS)
        queue.wait_all()
        assert done[-1] == JOBS
        core.close()


async def test_every_result_comes_in_its_turn(queue: ov.AsyncInferQueue) -> None:
    inputs = [np.full(1, value, np.float32) for value in np.linspace(0.1, 0.5, 2 * JOBS)]
    async with asyncio.timeout(120):
        results = [float(result[0]) async for result in queue.map_async(inputs)]
    assert len(results) == len(inputs)
    assert results == sorted(results)
