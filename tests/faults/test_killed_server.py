"""The server's process is killed while its clients wait: each is told, none waits for ever."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, start, wait_until_ready

ROW = np.ones(1, np.float32)


@contextmanager
def to_be_killed(repository: Path, *flags: str) -> Generator[ServerProcess]:
    with TemporaryFile() as log:
        server = start(repository, flags, log)
        try:
            wait_until_ready(server, log)
            yield server
        finally:
            server.process.kill()
            server.process.wait()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A model that takes some seconds."""
    data = op.parameter([1], np.float32, name="data")
    node: Any = op.broadcast(data, op.constant(np.array([1024, 1024], np.int64)))
    square = node
    for _ in range(500):
        node = op.tanh(op.matmul(node, square, transpose_a=False, transpose_b=False))
    out = op.reduce_max(node, op.constant(np.array([0, 1], np.int64)))
    runtime: Any = openvino  # its stub takes another Model's place
    openvino.save_model(runtime.Model([out], [data], "slow"), tmp_path / "slow" / "1" / "slow.xml")
    return tmp_path


def test_a_client_in_the_middle_of_inferences_is_told(repository: Path) -> None:
    with to_be_killed(repository) as server:
        compiled = ov.Core(server.grpc_address).served_model("slow")
        requests = [compiled.create_infer_request() for _ in range(4)]
        for request in requests:
            request.start_async(ROW)
        devices = f"http://{server.host}:{server.http_port}/inferwire/v1/devices"
        wait_until(lambda: b'"running":0' not in urlopen(devices).read())
        server.process.kill()
        for request in requests:
            with pytest.raises(ov.ServerUnavailable):
                request.wait()
    with pytest.raises(URLError):
        urlopen(f"http://{server.host}:{server.http_port}/metrics", timeout=LIMIT_S)


def test_a_queue_of_jobs_is_told_once_for_each(repository: Path) -> None:
    told: list[int] = []
    with to_be_killed(repository) as server:
        queue = ov.AsyncInferQueue(ov.Core(server.grpc_address).served_model("slow"), jobs=4)
        queue.set_callback(lambda _, index: told.append(index))
        for index in range(4):
            queue.start_async(ROW, userdata=index)
        server.process.kill()
        with pytest.raises(ov.ServerUnavailable):
            queue.wait_all()
    assert told == []


def test_an_upload_that_is_cut_off_is_told(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    served = tmp_path_factory.mktemp("served")
    shutil.copytree(Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp", served / "digits_mlp")
    model = repository / "slow" / "1" / "slow.xml"
    with to_be_killed(served, "--allow-uploads") as server:
        core = ov.Core(server.grpc_address)
        core.compile_model(model, "CPU")
        server.process.kill()
        os.waitid(os.P_PID, server.process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ov.ServerUnavailable):
            core.compile_model(model, "CPU")
