"""A load on a real server, over each way."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from PIL import Image
from tests.front import Front

from inferwire_cli.server_process import HOST, ServerProcess, free_ports, running_server

Run = Callable[..., Any]
COFFEE = Path(__file__).resolve().parents[2] / "deploy/images/coffee.png"


@pytest.mark.parametrize("path", ["sdk", "grpc", "rest"])
def test_every_way_answers_as_often_as_was_asked(run: Run, path: str) -> None:
    done = run("bench", "digits_mlp", "--number", "40", "--concurrency", "4", "--path", path, "--json", "--batch", "3")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["path"], document["answered"], document["failed"]) == (path, 40, {})
    assert (document["concurrency"], document["batch"]) == (4, 3)
    times = document["milliseconds"]
    assert set(times) == {"latency", "queue", "inference", "wire"}
    assert times["latency"]["p50"] >= times["inference"]["p50"] > 0
    # What travels takes time: who reads none has only asked the server for its own.
    assert times["wire"]["p50"] > 0
    assert times["latency"]["max"] >= times["latency"]["p99"] >= times["latency"]["p50"]


def test_a_person_reads_rate_percentiles_and_a_histogram(run: Run) -> None:
    done = run("bench", "digits_mlp", "--seconds", "0.3", "--batch", "2", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    for part in ("inferences/s", "rows/s)", "answered, 0 failed", "p99.9", "latency from ms", "█"):
        assert part in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_what_is_sent_may_be_given(run: Run) -> None:
    done = run("bench", "files", "--number", "2", "--concurrency", "1", "-i", COFFEE, "--path", "rest", "--json")
    assert json.loads(done.stdout)["answered"] == 2


@pytest.mark.parametrize("path", ["sdk", "grpc", "rest"])
def test_a_model_may_have_any_name(run: Run, unusual: str, path: str) -> None:
    done = run("bench", unusual, "--number", "2", "--path", path, "--model-version", "1", FORCE_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{unusual} version 1 on CPU: ")


def test_a_model_with_states_runs_too(run: Run) -> None:
    done = run("bench", "silero_vad_stateful", "--number", "8", "--concurrency", "2", "--json")
    assert json.loads(done.stdout)["answered"] == 8


def test_the_latencies_are_drawn(run: Run, tmp_path: Path) -> None:
    done = run("bench", "digits_mlp", "--number", "20", "--plot", tmp_path / "latencies.png")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "latencies.png") as picture:
        assert picture.width > 400


def test_a_folder_is_no_picture(run: Run, tmp_path: Path) -> None:
    (tmp_path / "latencies.png").mkdir()
    done = run("bench", "digits_mlp", "--plot", tmp_path / "latencies.png")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--plot is '{tmp_path / 'latencies.png'}', which is a folder, expected a file" in done.stderr


def test_a_plot_for_which_the_disk_has_no_room_is_named(run: Run, tmp_path: Path) -> None:
    plot = tmp_path / "latencies.png"
    plot.symlink_to("/dev/full")
    done = run("bench", "digits_mlp", "--number", "20", "--plot", plot)
    assert "20 answered" in done.stdout
    sentence = f"inferwire: --plot is '{plot}', which cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, sentence)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nobody",), 1, "'nobody' is not found; there are 'broken', 'digits_mlp'"),
        (("files",), 2, "takes strings, which are not made up: give it with -i"),
        (("files", "-i", "no picture", "--number", "1"), 1, "is no JPEG or PNG file"),
        (("digits_mlp", "--plot", "latencies.gif"), 2, "expected a file that ends in .png, .svg, .pdf"),
        (("digits_mlp", "--plot", "/nowhere/latencies.png"), 2, "there is no folder '/nowhere'"),
        (("digits_mlp", "--batch", "99999999999999999999"), 2, "MiB as f32, expected at most 2,047, the most that any"),
        (("digits_mlp", "--batch", "10000000", "-i", f"{[0] * 64}"), 2, "has 2,441 MiB as f32, expected at most 2,047"),
        (
            ("digits_mlp", "--shape", "999999999999999999,64"),
            2,
            "shape [999999999999999999,64] has 244,140,624,999,999",
        ),
        (("digits_mlp", "--shape", "0,999999999999999999"), 2, "MiB as f32, expected at most 2,047, the most that any"),
        (("digits_mlp", "--concurrency", "16385"), 2, 'Invalid value "16385" for --concurrency. Must be <= 16384.'),
        (("digits_mlp", "--shape", "1,3"), 2, "input 'pixels' would have shape [1,3], expected [?,64]"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    done = run("bench", *words)
    assert done.returncode == code
    assert said in done.stderr


@pytest.fixture
def pooling(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of a model that leaves a length open, and fails if it is as small as it may be."""
    runtime: Any = openvino
    row = op.parameter([-1, 1, -1], np.float32, name="row")
    pooled = op.max_pool(row, [1], [1], [0], [0], [3])
    openvino.save_model(runtime.Model([pooled], [row], "pooling"), tmp_path / "pooling.xml")
    with running_server(tmp_path) as running:
        yield running


def test_a_shape_that_was_chosen_and_does_not_do_is_named(run: Run, pooling: ServerProcess) -> None:
    words = ("bench", "pooling", "--number", "2", "--address", pooling.grpc_address)
    done = run(*words)
    assert done.returncode == 1
    assert done.stderr.endswith("; nobody gave a shape for 'row' [1,1,1]: try another with --shape\n")
    assert run(*words, "--shape", "1,1,3").returncode == 0
    assert "--shape" not in run(*words, "--shape", "1,1,2").stderr
    assert "--shape" not in run(*words, "-i", "[[[1]]]").stderr


def test_http_that_is_not_there_is_named(run: Run) -> None:
    (port,) = free_ports(1)
    done = run("bench", "digits_mlp", "--path", "rest", "--http-address", f"{HOST}:{port}")
    assert done.returncode == 1
    assert f"no HTTP server answers at {HOST}:{port}" in done.stderr


def test_more_connections_than_there_may_be_are_told_as_such(server: ServerProcess) -> None:
    words = [sys.executable, "-m", "inferwire_cli", "bench", "digits_mlp", "--path", "rest", "--concurrency", "300"]
    where = ["--address", server.grpc_address, "--http-address", server.http_address]
    line = f"ulimit -n 100; exec {shlex.join([*words, *where])}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "no more connections to" in done.stderr
    assert "give less --concurrency" in done.stderr


class Elsewhere(BaseHTTPRequestHandler):
    """What answers the Open Inference Protocol and says nothing of its times."""

    protocol_version = "HTTP/1.1"
    page = b"{}"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        self.wfile.write(self.page)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@contextmanager
def answering(answers: type[Elsewhere]) -> Generator[str]:
    """Give where another server's HTTP is."""
    with ThreadingHTTPServer((HOST, 0), answers) as other:
        threading.Thread(target=other.serve_forever).start()
        try:
            yield f"{HOST}:{other.server_port}"
        finally:
            other.shutdown()


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Where another server's HTTP is."""
    with answering(Elsewhere) as address:
        yield address


def test_another_server_that_does_not_say_its_times_is_measured_too(run: Run, elsewhere: str) -> None:
    words = ("bench", "digits_mlp", "--path", "rest", "--http-address", elsewhere, "--number", "12")
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["answered"], document["failed"]) == (12, {})
    times = document["milliseconds"]
    assert times["latency"]["p50"] > 0
    assert (times["queue"], times["inference"], times["wire"]) == (None, None, None)
    table = [line.split() for line in run(*words).stdout.splitlines()]
    assert ["queue", "-"] in table
    assert ["wire", "-"] in table


def greet(connection: socket.socket) -> None:
    with connection:
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        connection.recv(1 << 16)


@pytest.mark.parametrize(
    ("take", "said"),
    [(socket.socket.close, "no HTTP server answers at 127.0.0.1:"), (greet, "speaks no HTTP: give the server's HTTP")],
)
def test_what_answers_no_http_is_told_as_such(
    server: ServerProcess, take: Callable[[socket.socket], object], said: str
) -> None:
    words = [sys.executable, "-m", "inferwire_cli", "bench", "digits_mlp", "--path", "rest"]
    with closing(Front(take)) as front:
        where = ["--address", server.grpc_address, "--http-address", f"{HOST}:{front.port}"]
        done = subprocess.run([*words, *where], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert said in done.stderr


class Welcoming(Elsewhere):
    """What answers everything with a page."""

    page = b"<html>welcome</html>"


def test_what_answers_with_something_else_is_not_measured(run: Run) -> None:
    with answering(Welcoming) as address:
        done = run("bench", "digits_mlp", "--path", "rest", "--http-address", address, "--number", "12")
    assert done.returncode == 1
    assert f"what answers at {address} does not speak the Open Inference Protocol: is it the" in done.stderr


@pytest.mark.parametrize("path", ["sdk", "grpc"])
def test_who_measures_nothing_is_told_so(run: Run, path: str) -> None:
    done = run("bench", "digits_mlp", "--seconds", "1e-9", "--path", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing was answered in 0.0" in done.stderr
    assert "give more --seconds" in done.stderr


def test_interrupted_it_says_what_was_measured(server: ServerProcess) -> None:
    command = [sys.executable, "-m", "inferwire_cli", "bench", "digits_mlp", "--seconds", "600"]
    # Forced to believe in a terminal, it shows its progress: by that it is known to be at work.
    environment = {**os.environ, "INFERWIRE_ADDRESS": server.grpc_address, "FORCE_COLOR": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
        assert bench.stderr is not None
        while "/s" not in (shown := bench.stderr.read(40)):
            assert shown, "it ended by itself"
        bench.send_signal(signal.SIGINT)
        said, complaints = bench.communicate(timeout=60)
    assert bench.returncode == 130, complaints
    assert "inferences/s" in said
    assert "Traceback" not in complaints
