"""Urgent requests and time limits, against a server that runs one inference at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.request import urlopen

import numpy as np
import pytest
from tests.system.servers import save_slow_model, wait_for

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, running_server

ONE = np.ones(1, np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("models")
    save_slow_model(repository, products=40)
    save_slow_model(repository, products=250, rows=2048, name="long")
    with running_server(repository, "--slots", "1", "--max-running", "1") as running:
        yield running


@pytest.fixture
def model(server: ServerProcess) -> ov.CompiledModel:
    return ov.Core(server.grpc_address).served_model("slow")


@pytest.fixture
def running(server: ServerProcess) -> Iterator[ov.InferRequest]:
    """A request that has the only slot until it is cancelled."""
    request = ov.Core(server.grpc_address).served_model("long").create_infer_request()
    request.start_async(ONE)
    wait_for_load(server, 1, 0)
    yield request
    request.cancel()
    with pytest.raises(ov.Cancelled):
        request.wait()
    wait_for_load(server, 0, 0)


def wait_for_load(server: ServerProcess, running: int, queued: int) -> None:
    """Wait until so many inferences run and wait."""

    def is_so() -> bool:
        with urlopen(f"http://{server.http_address}/inferwire/v1/devices") as answer:
            device = json.load(answer)["devices"][0]
        return (device["running"], device["queued"]) == (running, queued)

    wait_for(server, is_so)


def test_the_urgent_of_those_that_wait_runs_next(
    server: ServerProcess, model: ov.CompiledModel, running: ov.InferRequest
) -> None:
    order: list[str] = []
    requests = {name: model.create_infer_request() for name in ("normal", "low", "urgent")}
    requests["urgent"].scheduling = ov.Scheduling(priority=1)
    requests["low"].scheduling = ov.Scheduling(priority=-1)
    for waiting, name in enumerate(("low", "normal", "urgent"), 1):
        requests[name].set_callback(order.append, name)
        requests[name].start_async(ONE)
        wait_for_load(server, 1, waiting)
    running.cancel()
    for request in requests.values():
        request.wait()
    assert order == ["urgent", "normal", "low"]


def test_what_waits_for_longer_than_its_limit_never_runs(model: ov.CompiledModel, running: ov.InferRequest) -> None:
    limited = model.create_infer_request()
    limited.scheduling = ov.Scheduling(time_limit_ms=1)
    limited.start_async(ONE)
    with pytest.raises(ov.DeadlineExceeded):
        limited.wait()
    assert not running.wait_for(0)
    running.cancel()
    limited.scheduling = ov.Scheduling()
    assert limited.infer(ONE)[0].shape == ()


def test_what_runs_for_longer_than_its_limit_is_cancelled(server: ServerProcess, model: ov.CompiledModel) -> None:
    request = model.create_infer_request()
    request.scheduling = ov.Scheduling(time_limit_ms=1)
    with pytest.raises(ov.DeadlineExceeded):
        request.infer(ONE)
    wait_for_load(server, 0, 0)


def test_a_queue_tells_which_were_too_late(model: ov.CompiledModel) -> None:
    queue = ov.AsyncInferQueue(model, 3)
    queue[1].scheduling = ov.Scheduling(time_limit_ms=1)
    ended: dict[int, object] = {}
    queue.set_callback(lambda _, index: ended.update({index: None}))
    queue.set_error_callback(lambda _, index, error: ended.update({index: type(error)}))
    for index in range(3):
        queue.start_async(ONE, index)
    queue.wait_all()
    assert ended == {0: None, 1: ov.DeadlineExceeded, 2: None}
