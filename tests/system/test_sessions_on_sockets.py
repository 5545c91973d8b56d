"""What carries the SDK's sessions to a server that runs: a plain socket where one can be had, gRPC wherever not."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.system.proxy import Proxy
from tests.system.servers import PATIENT, serving
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.executions import WireBytes
from inferwire.transport.session import incoming
from inferwire.transport.session.session_stream import SessionStream
from inferwire_cli.server_process import HOST, ServerProcess, free_ports

DIGITS = Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp"
ROW = np.zeros((1, 64), np.float32)
CORES = len(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sockets") / "grpc.sock"


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[ServerProcess]:
    with serving(DIGITS, free_ports(1)[0], "--grpc-socket", str(file)) as server:
        yield server


def on_sockets() -> set[threading.Thread]:
    """Give the threads that write to sockets of sessions."""
    return {each for each in threading.enumerate() if each.name == "inferwire-writer"}


def is_on_socket(address: str) -> bool:
    """Run inferences on a server, alone and many at once, and say whether a socket carried them."""
    others = on_sockets()
    model = ov.Core(address, timeouts=PATIENT).served_model("digits_mlp")
    expected = model(ROW)[0]
    answers: list[np.ndarray] = []
    queue = ov.AsyncInferQueue(model, 16)
    queue.set_callback(lambda request, _: answers.append(request.results[0]))
    for _ in range(64):
        queue.start_async(ROW)
    queue.wait_all()
    np.testing.assert_allclose(np.stack(answers), np.stack([expected] * 64), rtol=0.02)
    return bool(on_sockets() - others)


def test_at_a_port_it_is_that_of_grpc(server: ServerProcess) -> None:
    assert is_on_socket(server.grpc_address)


def test_it_is_so_where_the_port_is_published_under_another_number(server: ServerProcess) -> None:
    with Proxy(server.grpc_port) as proxy:
        assert is_on_socket(f"{HOST}:{proxy.port}")


def test_at_a_unix_socket_it_is_that_of_grpc(server: ServerProcess, file: Path) -> None:
    del server
    assert is_on_socket(f"unix:{file}")
    assert list(file.parent.iterdir()) == [file]


@pytest.fixture
def takers(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads that take messages of sessions; every wait of this machine counts as brief."""
    found: set[int] = set()
    take = SessionStream._take

    def note_and_take(self: SessionStream, data: WireBytes) -> None:
        found.add(threading.get_ident())
        take(self, data)

    monkeypatch.setattr(SessionStream, "_take", note_and_take)
    monkeypatch.setattr(incoming, "WINDOW_S", 1.0)
    return found


def infer(request: ov.InferRequest) -> None:
    request.infer(ROW)


def start_and_wait(request: ov.InferRequest) -> None:
    request.start_async(ROW)
    request.wait()


def infer_until(
    holds: Callable[[], bool], model: ov.CompiledModel, use: Callable[[ov.InferRequest], None] = infer
) -> None:
    """Run one inference after another until something holds."""
    request = model.create_infer_request()
    until = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < until, "it does not come about"
        for _ in range(10):
            use(request)


@pytest.mark.skipif(CORES < 2, reason="on a single core, to look for an answer would delay it")
@pytest.mark.parametrize("use", [infer, start_and_wait])
@pytest.mark.parametrize("way", ["port", "file"])
def test_who_infers_one_after_the_other_takes_the_answers(
    server: ServerProcess, file: Path, way: str, use: Callable[[ov.InferRequest], None], takers: set[int]
) -> None:
    core = ov.Core(server.grpc_address if way == "port" else f"unix:{file}", timeouts=PATIENT)
    infer_until(lambda: threading.get_ident() in takers, core.served_model("digits_mlp"), use)


@pytest.mark.skipif(CORES < 2, reason="on a single core, to look for a request would delay it")
def test_where_requests_come_soon_the_server_looks_for_the_next(server: ServerProcess) -> None:
    def has_looked() -> bool:
        text = httpx.get(f"http://{server.http_address}/metrics").text
        (seconds,) = re.findall(r"^inferwire_busy_poll_seconds_total (.+)$", text, re.MULTILINE)
        return float(seconds) > 0

    infer_until(has_looked, ov.Core(server.grpc_address, timeouts=PATIENT).served_model("digits_mlp"))


def test_who_asks_for_grpc_gets_grpc(server: ServerProcess) -> None:
    assert not is_on_socket(f"grpc://{server.grpc_address}")


def test_where_several_workers_share_the_port_it_is_whichevers_session_it_is(port: int) -> None:
    with serving(DIGITS, port, "--workers", "3"):
        assert [is_on_socket(f"{HOST}:{port}") for _ in range(8)] == [True] * 8


def test_a_large_input_and_many_small_ones_share_a_socket(server: ServerProcess) -> None:
    model = ov.Core(server.grpc_address).served_model("digits_mlp")
    rows = np.random.default_rng(1).random((40_000, 64), np.float32)
    whole = model(rows)[0]
    queue = ov.AsyncInferQueue(model, 32)
    found: dict[int, np.ndarray] = {}
    queue.set_callback(lambda request, at: found.__setitem__(at, request.results[0][0]))
    request = model.create_infer_request()
    request.start_async(rows)
    for at in range(500):
        queue.start_async(rows[at : at + 1], at)
    queue.wait_all()
    request.wait()
    np.testing.assert_allclose(request.results[0], whole, rtol=0.02)
    np.testing.assert_allclose(np.stack([found[at] for at in range(500)]), whole[:500], atol=0.02)
