"""What the SDK's user sees of reloads: nothing but the new model's answers."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.waiting import wait_until

import inferwire
from inferwire_cli.server_process import ServerProcess, running_server

RELOADS = 20


def save(repository: Path, addend: float) -> None:
    """Write version 1 of a model that adds this, over the files of the one before."""
    data = op.parameter([1, 3], np.float32, name="data")
    data.output(0).get_tensor().set_names({"data"})
    out = op.add(data, op.constant(np.float32(addend)))
    out.output(0).get_tensor().set_names({"out"})
    version = repository / "adder" / "1"
    version.mkdir(parents=True, exist_ok=True)
    openvino.save_model(openvino.Model([op.result(out)], [data], "adder"), version / "model.xml")  # pyright: ignore


def reload(server: ServerProcess) -> None:
    url = f"http://{server.host}:{server.http_port}/v2/repository/models/adder/load"
    with urlopen(Request(url, method="POST"), timeout=60) as answer:
        assert answer.status == 200


@contextmanager
def callers(core: inferwire.Core, seen: list[float], failures: list[BaseException]) -> Generator[None]:
    """Infer without pause, one request and one queue of them, for as long as the block runs."""
    is_over = threading.Event()
    compiled = core.served_model("adder")

    def one_after_another() -> None:
        request = compiled.create_infer_request()
        while not is_over.is_set():
            seen.append(float(request.infer({"data": np.zeros((1, 3), np.float32)})["out"][0, 0]))

    def many_at_once() -> None:
        queue = inferwire.AsyncInferQueue(compiled, jobs=8)
        queue.set_callback(lambda request, _: seen.append(float(request.get_output_tensor().data[0, 0])))
        while not is_over.is_set():
            queue.start_async({"data": np.zeros((1, 3), np.float32)})
        queue.wait_all()

    def until_over(call: object) -> None:
        try:
            call()  # pyright: ignore
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=until_over, args=(call,)) for call in (one_after_another, many_at_once)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join(60)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    save(tmp_path, 0)
    return tmp_path


def test_a_watching_server_follows_the_files(repository: Path) -> None:
    with running_server(repository, "--watch") as server:
        compiled = inferwire.Core(server.grpc_address).served_model("adder")
        save(repository, 7)
        wait_until(lambda: compiled({"data": np.zeros((1, 3), np.float32)})["out"][0, 0] == 7)


def test_reloads_under_load_lose_no_request(repository: Path) -> None:
    seen: list[float] = []
    failures: list[BaseException] = []
    with running_server(repository, "--allow-model-control") as server:
        core = inferwire.Core(server.grpc_address)
        with callers(core, seen, failures):
            for addend in range(1, RELOADS + 1):
                save(repository, addend)
                reload(server)
        assert failures == []
        assert set(seen) <= set(range(RELOADS + 1))
        assert len(set(seen)) > 1
        compiled = core.served_model("adder")
        assert compiled({"data": np.zeros((1, 3), np.float32)})["out"][0, 0] == RELOADS
