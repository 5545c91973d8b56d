"""A program and a server on one host: large inputs are read where they lie, and nobody can tell."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.child_processes import children_of
from tests.system.servers import serving
from tests.waiting import wait_until

import inferwire as ov
from inferwire.transport.lent_memory import memory_behind
from inferwire_cli.server_process import ServerProcess
from inferwire_proto.lent_memory import NAME

SHAPE = (2, 100, 400)
PICTURE = (np.arange(80_000, dtype=np.float32) % 7).reshape(SHAPE)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives sums of rows, weighted by its second input, which is small."""
    folder = tmp_path_factory.mktemp("repository")
    picture = op.parameter([-1, 100, -1], np.float32, name="picture")
    weight = op.parameter([1], np.float32, name="weight")
    out = op.multiply(op.reduce_sum(picture, op.constant(np.array([2], np.int64))), weight)
    runtime: Any = openvino
    path = folder / "sums" / "1" / "sums.xml"
    openvino.save_model(runtime.Model([out], [picture, weight], "sums"), path, compress_to_fp16=False)
    (folder / "sums" / "inferwire.toml").write_text('[properties]\nINFERENCE_PRECISION_HINT = "f32"\n')
    return folder


@pytest.fixture
def server(repository: Path, port: int) -> Iterator[ServerProcess]:
    with serving(repository, port, "--session-grace-s", "0") as started:
        yield started


@pytest.fixture
def model(server: ServerProcess) -> ov.CompiledModel:
    return ov.Core(server.grpc_address).served_model("sums")


def given(picture: np.ndarray[Any, Any], weight: float) -> dict[int, Any]:
    return {0: picture, 1: np.array([weight], np.float32)}


def sums(picture: np.ndarray[Any, Any], weight: float) -> np.ndarray[Any, Any]:
    return picture.sum(axis=2) * np.float32(weight)


def mappings(pid: int) -> int:
    """How much lent memory a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text().count(f"/memfd:{NAME}")


def lent(request: ov.InferRequest, pid: int, count: int = 1) -> None:
    """Run a request until the server reads its memory in place, and check each answer."""

    def has_come_to_that() -> bool:
        np.testing.assert_array_equal(request.infer(given(PICTURE, 2.0))[0], sums(PICTURE, 2))
        return mappings(pid) == count

    wait_until(has_come_to_that)


def test_answers_are_the_same_whatever_way_inputs_take(server: ServerProcess, model: ov.CompiledModel) -> None:
    request = model.create_infer_request()
    lent(request, server.process.pid)
    for factor in range(1, 10):
        picture = PICTURE * factor
        expected = sums(picture, factor)
        np.testing.assert_array_equal(request.infer(given(picture, factor))[0], expected)
        np.testing.assert_array_equal(request.infer()[0], expected)
        by_bytes = model.create_infer_request()
        shared = by_bytes.infer({0: picture, 1: np.full(1, factor, np.float32)}, share_inputs=True)
        np.testing.assert_array_equal(shared[0], expected)
    assert mappings(server.process.pid) == 1


def test_what_is_written_to_the_tensor_is_what_runs(server: ServerProcess, model: ov.CompiledModel) -> None:
    request = model.create_infer_request()
    lent(request, server.process.pid)
    view = request.get_input_tensor(0).data
    view[...] = 1
    np.testing.assert_array_equal(request.infer()[0], np.full((2, 100), 800, np.float32))
    other = model.create_infer_request()
    other.set_input_tensor(0, request.get_input_tensor(0))
    other.set_input_tensor(1, ov.Tensor(np.ones(1, np.float32)))
    np.testing.assert_array_equal(other.infer()[0], np.full((2, 100), 400, np.float32))


def test_shapes_that_change_are_read_from_the_same_memory_until_it_is_too_small(
    server: ServerProcess, model: ov.CompiledModel
) -> None:
    request = model.create_infer_request()
    lent(request, server.process.pid)
    for shape in ((1, 100, 400), (2, 100, 7), (1, 100, 1), (2, 100, 400), (3, 100, 400), (3, 100, 500), (0, 100, 1)):
        for factor in (1, 2, 3):
            picture = np.full(shape, factor, np.float32)
            np.testing.assert_array_equal(request.infer(given(picture, 1.0))[0], sums(picture, 1))


def test_a_queue_reads_each_jobs_own_input(server: ServerProcess, model: ov.CompiledModel) -> None:
    queue = ov.AsyncInferQueue(model, 4)
    answers: dict[int, Any] = {}

    def keep(request: ov.InferRequest, number: int) -> None:
        answers[number] = request.get_output_tensor().data.copy()

    queue.set_callback(keep)
    for number in range(200):
        queue.start_async(given(PICTURE + number, 1.0), number)
    queue.wait_all()
    for number, answer in answers.items():
        np.testing.assert_array_equal(answer, sums(PICTURE + number, 1))
    assert len(answers) == 200
    wait_until(lambda: mappings(server.process.pid) == 4)


def test_nothing_is_left_of_requests_that_nobody_holds(server: ServerProcess, model: ov.CompiledModel) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the folder changes as it is read
    requests = [model.create_infer_request() for _ in range(3)]
    for count, request in enumerate(requests, start=1):
        lent(request, server.process.pid, count)
        del request
    requests.clear()
    gc.collect()
    # What the server has mapped already may not be answered yet, and is held until then.
    wait_until(lambda: mappings(os.getpid()) == 0)
    wait_until(lambda: mappings(server.process.pid) == 0)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 3)  # noqa: PTH208 - as above


def test_a_server_that_has_restarted_is_lent_the_memory_again(repository: Path, port: int) -> None:
    with serving(repository, port) as first:
        request = ov.Core(first.grpc_address).served_model("sums").create_infer_request()
        lent(request, first.process.pid)
    with pytest.raises(ov.ServerUnavailable):
        request.infer(given(PICTURE, 2.0))
    with serving(repository, port) as second:
        lent(request, second.process.pid)


def test_what_was_in_flight_is_sent_again(repository: Path, port: int) -> None:
    with serving(repository, port) as first:
        request = ov.Core(first.grpc_address).served_model("sums").create_infer_request()
        lent(request, first.process.pid)
        first.process.send_signal(signal.SIGSTOP)
        request.start_async(given(PICTURE * 2, 1.0))
        first.process.kill()
        first.process.wait()
        with serving(repository, port):
            try:
                request.wait()
            except ov.ServerUnavailable:
                # The new server was not there yet when it was sent again.
                request.infer()
            np.testing.assert_array_equal(request.get_output_tensor().data, sums(PICTURE * 2, 1))


def test_a_server_that_cannot_open_the_memory_is_sent_bytes(server: ServerProcess, model: ov.CompiledModel) -> None:
    request = model.create_infer_request()
    request.infer(given(PICTURE, 1))
    memory = memory_behind(request.get_input_tensor(0).memory.wire_data())
    assert memory is not None
    with TemporaryFile() as other:
        os.dup2(other.fileno(), memory.descriptor)
    for factor in range(5):
        np.testing.assert_array_equal(request.infer(given(PICTURE * factor, 1.0))[0], sums(PICTURE * factor, 1))
    assert mappings(server.process.pid) == 0


def test_a_killed_client_leaves_nothing(server: ServerProcess) -> None:
    program = f"""
import numpy as np, inferwire
request = inferwire.Core("{server.grpc_address}").served_model("sums").create_infer_request()
while True:
    request.infer({{0: np.zeros({SHAPE}, np.float32), 1: np.ones(1, np.float32)}})
"""
    client = subprocess.Popen([sys.executable, "-c", program])
    try:
        wait_until(lambda: mappings(server.process.pid) == 1)
    finally:
        client.kill()
        client.wait()
    wait_until(lambda: mappings(server.process.pid) == 0)


def test_each_of_several_workers_reads_what_its_clients_lend(repository: Path, port: int) -> None:
    with serving(repository, port, "--workers", "2", "--session-grace-s", "0") as server:
        pids = [server.process.pid, *children_of(server.process.pid)]
        clients = [ov.Core(server.grpc_address).served_model("sums").create_infer_request() for _ in range(4)]

        def all_are_lent() -> bool:
            for request in clients:
                np.testing.assert_array_equal(request.infer(given(PICTURE, 2.0))[0], sums(PICTURE, 2))
            return sum(map(mappings, pids)) == len(clients)

        wait_until(all_are_lent)
        clients.clear()
        gc.collect()
        wait_until(lambda: sum(map(mappings, pids)) == 0)
