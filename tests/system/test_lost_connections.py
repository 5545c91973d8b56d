"""What a program lives through when its server restarts, drains or can no longer be reached."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tests.system.proxy import Proxy
from tests.system.servers import PATIENT, save_slow_model, serving
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire_cli.server_process import HOST, ServerProcess, free_ports

DIGITS = Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp"
MODEL = DIGITS / "1" / "digits_mlp.xml"
ROW = np.zeros((1, 64), np.float32)
F32 = {"INFERENCE_PRECISION_HINT": "f32"}


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A model that takes long."""
    save_slow_model(tmp_path, 100)
    return tmp_path / "slow/1/slow.xml"


def test_an_uploaded_model_is_compiled_again_by_a_server_that_has_restarted(port: int) -> None:
    core = ov.Core(f"{HOST}:{port}")
    with serving(DIGITS, port, "--allow-uploads"):
        compiled = core.compile_model(MODEL, "CPU", F32)
        expected = compiled(ROW)[0]
        queue = ov.AsyncInferQueue(compiled, 4)
    with pytest.raises(ov.ServerUnavailable):
        compiled(ROW)
    with serving(DIGITS, port, "--allow-uploads"):
        np.testing.assert_array_equal(compiled(ROW)[0], expected)
        for _ in range(8):
            queue.start_async(ROW)
        queue.wait_all()
        assert core.available_devices == ["CPU"]


def test_a_model_from_memory_is_uploaded_again(port: int) -> None:
    content = MODEL.read_bytes(), MODEL.with_suffix(".bin").read_bytes()
    core = ov.Core(f"{HOST}:{port}")
    with serving(DIGITS, port, "--allow-uploads"):
        compiled = core.compile_model(content[0], "CPU", F32, weights=content[1])
    with serving(DIGITS, port, "--allow-uploads"):
        assert compiled(ROW)[0].shape == (1, 10)


def test_a_model_of_a_relative_path_is_compiled_again_in_another_folder(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = ov.Core(f"{HOST}:{port}")
    with serving(DIGITS, port, "--allow-uploads"):
        monkeypatch.chdir(MODEL.parent)
        compiled = core.compile_model(MODEL.name, "CPU", F32, weights=MODEL.with_suffix(".bin").name)
        monkeypatch.chdir(tmp_path)
    with serving(DIGITS, port, "--allow-uploads"):
        assert compiled(ROW)[0].shape == (1, 10)


def test_a_model_that_cannot_be_compiled_again_says_what_to_do(port: int) -> None:
    core = ov.Core(f"{HOST}:{port}")
    with serving(DIGITS, port, "--allow-uploads"):
        compiled = core.compile_model(MODEL, "CPU", F32)
    with serving(DIGITS, port), pytest.raises(ov.SessionLost, match=r"uploading models is off.*Core\.compile_model"):
        compiled(ROW)


def test_what_a_killed_server_had_in_flight_is_run_by_its_successor(port: int, tmp_path: Path) -> None:
    save_slow_model(tmp_path, products=250, rows=2048)
    core = ov.Core(f"{HOST}:{port}")
    with serving(DIGITS, port, "--allow-uploads") as server:
        request = core.compile_model(tmp_path / "slow/1/slow.xml", "CPU").create_infer_request()
        request.start_async(np.ones(1, np.float32))
        server.process.kill()
        server.process.wait(LIMIT_S)
        # Nobody listens there now: it was tried again, once, and the wait ends.
        with pytest.raises(ov.ServerUnavailable, match="was under way, which may have run: no inferwire server"):
            request.wait()


def test_tensors_that_a_restarted_server_has_lost_say_what_to_do(port: int) -> None:
    core = ov.Core(f"{HOST}:{port}")
    with serving(DIGITS, port):
        tensor = core.get_default_context("CPU").create_tensor(ov.Type.f32, [1, 64], {})
        compiled = core.served_model("digits_mlp")
        first, second = compiled.create_infer_request(), compiled.create_infer_request()
        first.set_input_tensor(tensor)
        expected = first.infer()[0]
        first.set_output_tensor(core.get_default_context("CPU").create_tensor(ov.Type.f32, [1, 10], {}))
        unread = first.infer()
    with serving(DIGITS, port):
        with pytest.raises(ov.SessionLost, match=r"lost a tensor that it kept for .*make the remote tensor"):
            first.infer()
        with pytest.raises(ov.TensorLost, match="run the inference again"):
            unread.to_tuple()
        with pytest.raises(ov.TensorLost):
            tensor.copy_from(ov.Tensor(ROW))
        np.testing.assert_array_equal(second.infer(ROW)[0], expected)


def test_a_draining_server_answers_what_it_has_and_refuses_what_is_new(port: int, slow: Path) -> None:
    core = ov.Core(f"{HOST}:{port}")
    with serving(DIGITS, port, "--allow-uploads", "--grace-s", "300") as server:
        compiled = core.compile_model(slow, "CPU", {"NUM_STREAMS": 1})
        running, late = compiled.create_infer_request(), compiled.create_infer_request()
        running.start_async(np.ones(1, np.float32))
        # The stream keeps its order: once this is answered, the server has what was sent before it.
        core.served_model("digits_mlp")(ROW)
        server.process.send_signal(signal.SIGTERM)
        refused = refusal_of(late)
        assert isinstance(refused, ov.ShuttingDown | ov.ServerUnavailable)
        running.wait()
        assert running.results[0].shape == ()


def refusal_of(request: ov.InferRequest) -> RuntimeError:
    """Start work until the server, which has just been told to end, refuses some."""
    while True:
        try:
            request.start_async(np.ones(1, np.float32))
            while not request.wait_for(1):
                pass
        except RuntimeError as error:
            return error


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    (port,) = free_ports(1)
    with serving(DIGITS, port, "--allow-uploads") as running:
        yield running


def test_a_model_that_was_read_is_compiled_by_any_server(server: ServerProcess, port: int) -> None:
    core = ov.Core(f"{HOST}:{port}")
    with serving(DIGITS, port, "--allow-uploads"):
        model = core.read_model(MODEL)
        model.reshape([2, 64])
    other = ov.Core(f"{HOST}:{server.grpc_port}")
    assert other.compile_model(model, "CPU", F32)(np.zeros((2, 64), np.float32))[0].shape == (2, 10)
    with serving(DIGITS, port, "--allow-uploads"):
        assert core.compile_model(model, "CPU", F32)(np.zeros((2, 64), np.float32))[0].shape == (2, 10)


class Way(NamedTuple):
    """A server by an address of which the connections can be cut, and how many a session has."""

    address: str
    proxy: Proxy
    connections: int


@pytest.fixture
def by_grpc(server: ServerProcess) -> Iterator[Way]:
    with Proxy(server.grpc_port) as proxy:
        yield Way(f"grpc://{HOST}:{proxy.port}", proxy, 1)


@pytest.fixture
def by_socket(server: ServerProcess) -> Iterator[Way]:
    with Proxy(server.grpc_port) as proxy:
        yield Way(f"{HOST}:{proxy.port}", proxy, 2)


@pytest.fixture(params=["gRPC", "a socket"])
def way(request: pytest.FixtureRequest) -> Way:
    return request.getfixturevalue("by_grpc" if request.param == "gRPC" else "by_socket")


def test_a_connection_cut_within_a_message_is_opened_again(way: Way) -> None:
    check_cut(way, 1000)


def test_a_connection_cut_within_a_large_call_is_opened_again(by_grpc: Way) -> None:
    check_cut(by_grpc, 40_000)


def check_cut(way: Way, rows: int) -> None:
    core = ov.Core(way.address, timeouts=PATIENT)
    model = core.read_model(MODEL)
    model.reshape([rows, 64])
    compiled = core.compile_model(model, "CPU", F32)
    data = np.random.default_rng(0).random((rows, 64), np.float32)
    expected = compiled(data)[0]
    way.proxy.cut_after = data.nbytes // 2
    np.testing.assert_array_equal(compiled(data)[0], expected)
    assert way.proxy.connections == 2 * way.connections
    core.close()


def test_a_connection_that_has_gone_dark_is_noticed_and_left(way: Way) -> None:
    core = ov.Core(way.address, timeouts=replace(PATIENT, keepalive_s=0.5, answer_s=2))
    compiled = core.served_model("digits_mlp")
    expected = compiled(ROW)[0]
    way.proxy.go_silent()
    np.testing.assert_array_equal(compiled(ROW)[0], expected)
    assert way.proxy.connections == 2 * way.connections
    core.close()
