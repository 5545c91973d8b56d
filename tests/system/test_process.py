"""The server as an operator meets it: a process with flags, signals, an exit code and a log."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from tests.system.servers import insist, log_line, log_lines, save_slow_model, started, wait_for, wait_for_line
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire_cli.server_process import (
    HOST,
    ServerProcess,
    free_ports,
    running_server,
    tail,
    wait_until_ready,
)
from inferwire_server.openvino_backend.compile_cache import alone_in

DIGITS = Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp"
ROW = np.zeros((1, 64), np.float32)
SLOW_INPUT = {"inputs": [{"name": "data", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
WAITING_FOR_CACHE = "waiting for another that compiles into the cache"
LEFT = "calls did not end, the process ends without them"
UNENDED = "an inference or a load did not stop, the process ends without it"


def get(server: ServerProcess, path: str) -> Any:
    with urlopen(f"http://{server.host}:{server.http_port}{path}") as answer:
        return json.load(answer)


def wait_for_running(server: ServerProcess, count: int) -> None:
    """Wait until so many inferences are on the device."""
    wait_for(server, lambda: get(server, "/inferwire/v1/devices")["devices"][0]["running"] >= count)


def start_job(server: ServerProcess) -> str:
    """Start an inference of the slow model as a job, which no connection has to wait for."""
    url = f"http://{server.host}:{server.http_port}/inferwire/v1/models/slow/jobs"
    with urlopen(Request(url, json.dumps(SLOW_INPUT).encode())) as answer:
        return str(json.load(answer)["id"])


def test_running_work_finishes_after_sigterm_and_the_exit_code_is_0(tmp_path: Path) -> None:
    save_slow_model(tmp_path, products=300)
    with started("--model-repository", str(tmp_path), "--grace-s", "600") as (server, log):
        wait_until_ready(server, log)
        compiled = ov.Core(server.grpc_address).served_model("slow")
        request = compiled.create_infer_request()
        request.infer(np.ones(1, np.float32))
        request.start_async(np.ones(1, np.float32))
        start_job(server)
        wait_for_running(server, 2)
        server.process.terminate()
        request.wait()
        assert request.results[0] > 0
        assert server.process.wait(LIMIT_S) == 0
        assert log_line(log, "stopped")["cancelled"] == 0


def status_of(server: ServerProcess, path: str, body: bytes | None = None) -> int:
    try:
        with urlopen(f"http://{server.host}:{server.http_port}{path}", body) as answer:
            return int(answer.status)
    except HTTPError as refusal:
        with refusal:
            return refusal.code


def test_work_that_outlasts_the_grace_is_cancelled_and_the_exit_code_is_0(tmp_path: Path) -> None:
    save_slow_model(tmp_path, products=250, rows=2048)
    flags = ("--model-repository", str(tmp_path), "--grace-s", "0.1")
    with started(*flags) as (server, log), ThreadPoolExecutor(1) as threads:
        wait_until_ready(server, log)
        request = ov.Core(server.grpc_address).served_model("slow").create_infer_request()
        request.start_async(np.ones(1, np.float32))
        called = threads.submit(status_of, server, "/v2/models/slow/infer", json.dumps(SLOW_INPUT).encode())
        wait_for_running(server, 2)
        start_job(server)
        server.process.terminate()
        assert called.result(LIMIT_S) == 503
        # It is sent once more, and until then the server may have gone.
        with pytest.raises((ov.ShuttingDown, ov.ServerUnavailable)):
            request.wait()
        assert server.process.wait(LIMIT_S) == 0
        assert log_line(log, "stopped")["cancelled"] == 3


def test_callers_are_told_why_for_as_long_as_work_runs_after_sigterm(tmp_path: Path) -> None:
    save_slow_model(tmp_path, products=250, rows=2048)
    with started("--model-repository", str(tmp_path), "--grace-s", "600") as (server, log):
        wait_until_ready(server, log)
        request = ov.Core(server.grpc_address).served_model("slow").create_infer_request()
        request.start_async(np.ones(1, np.float32))
        wait_for_running(server, 1)
        server.process.terminate()
        wait_for(server, lambda: status_of(server, "/v2/health/ready") != 200)
        assert status_of(server, "/v2/health/ready") == 503
        assert status_of(server, "/v2/health/live") == status_of(server, "/metrics") == 200
        assert status_of(server, "/v2/models/slow/infer", json.dumps(SLOW_INPUT).encode()) == 503
        insist(server)
        assert server.process.wait(LIMIT_S) == 128 + signal.SIGTERM


def connection_after_answer(connection: HTTPConnection) -> str | None:
    """Ask for an answer on a connection, and give what it says becomes of that."""
    connection.request("GET", "/v2")
    with connection.getresponse() as answer:
        assert (answer.status, bool(answer.read())) == (200, True)
        return answer.getheader("connection")


def test_a_request_that_never_comes_whole_does_not_keep_the_process_from_its_end() -> None:
    with (
        running_server(DIGITS, "--grace-s", "3600") as server,
        socket.create_connection((HOST, server.http_port)) as caller,
    ):
        caller.sendall(b"POST /v2/models/digits_mlp/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{")
        get(server, "/v2")
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0
        with caller.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 503 Service Unavailable\r\n"


def test_work_is_taken_while_load_balancers_have_time_to_notice(tmp_path: Path) -> None:
    with started("--model-repository", str(DIGITS), "--drain-delay-s", "600") as (server, log):
        wait_until_ready(server, log)
        request = ov.Core(server.grpc_address).served_model("digits_mlp").create_infer_request()
        kept = HTTPConnection(server.host, server.http_port)
        assert connection_after_answer(kept) is None
        server.process.terminate()
        wait_for_line(server, log, "not ready any more")
        assert log_line(log, "not ready any more")["takes_work_for_s"] == 600
        assert status_of(server, "/v2/health/ready") == 503
        assert request.infer(ROW)[0].shape == (1, 10)
        assert connection_after_answer(kept) == "close"
        insist(server)
        assert server.process.wait(LIMIT_S) == 128 + signal.SIGTERM


def test_it_ends_once_load_balancers_had_their_time() -> None:
    with started("--model-repository", str(DIGITS), "--drain-delay-s", "0.01") as (server, log):
        wait_until_ready(server, log)
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0
        assert log_line(log, "stopped")["cancelled"] == 0


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one process", "two"])
def test_a_terminal_that_is_closed_lets_running_work_finish(tmp_path: Path, flags: tuple[str, ...]) -> None:
    save_slow_model(tmp_path, products=300)
    with started("--model-repository", str(tmp_path), "--grace-s", "600", *flags) as (server, log):
        wait_until_ready(server, log)
        request = ov.Core(server.grpc_address).served_model("slow").create_infer_request()
        request.start_async(np.ones(1, np.float32))
        wait_for_running(server, 1)
        # It comes from the shell, and from the system when the shell has gone.
        server.process.send_signal(signal.SIGHUP)
        wait_for_line(server, log, "stopping")
        server.process.send_signal(signal.SIGHUP)
        request.wait()
        assert request.results[0] > 0
        assert server.process.wait(LIMIT_S) == 0
        assert log_line(log, "stopping")["signal"] == "SIGHUP"


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    save_slow_model(tmp_path, products=250, rows=2048)
    with started("--model-repository", str(tmp_path), "--grace-s", "600") as (server, log):
        wait_until_ready(server, log)
        start_job(server)
        server.process.terminate()
        wait_for_line(server, log, "stopping")
        insist(server)
        assert server.process.wait(LIMIT_S) == 128 + signal.SIGTERM


def test_a_signal_ends_it_while_it_is_imported_also_as_the_first_process_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a one is ended by a signal that it handles, and by no other."""
    os.mkfifo(tmp_path / "importing")
    (tmp_path / "uvloop.py").write_text(
        f"open({str(tmp_path / 'importing')!r}, 'w').close()\nimport signal\nsignal.pause()"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with started() as (server, _):
        (tmp_path / "importing").read_bytes()
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_is_loaded_for_long_does_not_keep_the_process_from_its_end(tmp_path: Path, workers: int) -> None:
    flags = ("--cache-dir", str(tmp_path), "--grace-s", "0.1", "--workers", str(workers))
    with alone_in(tmp_path), started("--model-repository", str(DIGITS), *flags) as (server, log):
        wait_for(server, lambda: [line["event"] for line in log_lines(log)].count(WAITING_FOR_CACHE) == workers, log)
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0
        assert [line["event"] for line in log_lines(log)].count(UNENDED) == workers
        assert "Traceback" not in tail(log)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_without_an_end_does_not_keep_a_start_from_its_own(tmp_path: Path, workers: int) -> None:
    """So it is with one on a server that has gone; here it is a pipe that nobody closes."""
    os.mkfifo(tmp_path / "keys")
    with (
        started("--api-key-file", str(tmp_path / "keys"), "--workers", str(workers)) as (server, log),
        opened_to_write(server, tmp_path / "keys"),
    ):
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0, tail(log)
        assert log_line(log, LEFT)["calls"] == ["read_api_keys"]
        assert log_line(log, "stopped")["cancelled"] == 0
        assert "Traceback" not in tail(log)


def test_nor_does_a_certificate_without_an_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pem")
    flags = ("--allow-uploads", "--tls-certificate", str(tmp_path / "pem"), "--tls-key", str(tmp_path / "pem"))
    with started(*flags) as (server, log), opened_to_write(server, tmp_path / "pem"):
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0, tail(log)
        assert log_line(log, LEFT)["calls"] == ["tls_of"]
        assert log_line(log, "stopped")["cancelled"] == 0
        assert "Traceback" not in tail(log)


BUG = """
import asyncio, threading
import inferwire_server.process

async def serve(*_):
    begun = threading.Event()

    def hang():
        begun.set()
        threading.Event().wait()

    async def broken():
        raise KeyError("nowhere")

    asyncio.get_running_loop().run_in_executor(None, hang)
    await asyncio.to_thread(begun.wait)
    async with asyncio.TaskGroup() as group:
        group.create_task(broken())

inferwire_server.process.serve = serve
"""


def test_nor_does_one_keep_it_from_its_end_by_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(BUG)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with started() as (server, log):
        assert server.process.wait(LIMIT_S) == 1
        (raised,) = log_line(log, "bug in the server")["exception"]
        assert (raised["exc_type"], raised["frames"][-1]["name"]) == ("KeyError", "broken")
        assert log_line(log, LEFT)["calls"] == ["serve.<locals>.hang"]


def test_a_call_on_a_thread_that_does_not_end_does_not_keep_the_process_from_its_end(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_config_list": []}')
    flags = ("--config", str(config), "--allow-model-control", "--grace-s", "0.1")
    with started(*flags) as (server, log), ThreadPoolExecutor(1) as threads:
        wait_until_ready(server, log)
        config.unlink()
        os.mkfifo(config)
        reload = threads.submit(status_of, server, "/v1/config/reload", b"")
        with opened_to_write(server, config):
            server.process.terminate()
            assert server.process.wait(LIMIT_S) == 0, tail(log)
        assert reload.result(LIMIT_S) == 503
        assert len(log_line(log, LEFT)["calls"]) == 1
        assert "Traceback" not in tail(log)


@contextmanager
def opened_to_write(server: ServerProcess, pipe: Path) -> Generator[None]:
    """Open a pipe once a server reads from it, and say nothing."""
    ends: list[int] = []

    def is_opened() -> bool:
        with suppress(OSError):  # nobody reads yet
            ends.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(ends)

    wait_for(server, is_opened)
    try:
        yield
    finally:
        os.close(ends[0])


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with started("--model-repository", str(tmp_path), grpc_port=port) as (server, log):
            assert server.process.wait(LIMIT_S) == 1
            reason = log_line(log, "cannot serve")["reason"]
            assert all(line.startswith("{") for line in tail(log).splitlines())
    assert reason.startswith(f"cannot listen for gRPC on {HOST}:{port}: another process uses the port")


def test_a_second_server_does_not_share_the_port(tmp_path: Path) -> None:
    with running_server(tmp_path) as first, started(grpc_port=first.grpc_port) as (second, log):
        assert second.process.wait(LIMIT_S) == 1
        assert f"{HOST}:{first.grpc_port}" in log_line(log, "cannot serve")["reason"]


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--model-repository", "nowhere"), "the model repository 'nowhere' does not exist"),
        (("--model", "m=nowhere"), "model 'm' is to be served from 'nowhere', which does not exist"),
        (
            ("--cache-dir", "/dev/null/cache"),
            (
                "--cache-dir is '/dev/null/cache', which is no folder and cannot be made one: "
                "[Errno 20] Not a directory: '/dev/null/cache'"
            ),
        ),
        (("--property", "NUM_STREAMS"), "--property is 'NUM_STREAMS', expected NAME=VALUE"),
        (
            ("--allow-imports",),
            "--allow-imports is set without --allow-uploads, which it needs: a blob is uploaded first",
        ),
        (
            ("--extension", "/nowhere.so"),
            (
                "--extension '/nowhere.so' cannot be loaded: Cannot load library \"/nowhere.so\": "
                "/nowhere.so: cannot open shared object file: No such file or directory"
            ),
        ),
    ],
)
def test_a_setting_that_cannot_be_served_is_named(flags: tuple[str, ...], reason: str) -> None:
    with started(*flags) as (server, log):
        assert server.process.wait(LIMIT_S) == 1
        assert log_line(log, "cannot serve")["reason"] == reason


def test_threads_that_compute_let_the_loop_run_ten_times_as_soon_as_python_has_it() -> None:
    ended = """
import os
import sys
from pathlib import Path
from inferwire_server.__main__ import run
from inferwire_server.settings import Settings
own = sys.getswitchinterval()
os._exit = lambda code: print(code, own / sys.getswitchinterval())
run(Settings(cache_dir=Path("/dev/null/cache")))
"""
    done = subprocess.run([sys.executable, "-c", ended], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.splitlines() == ["1 10.0"]


def broken_repository(tmp_path: Path) -> Path:
    (tmp_path / "digits_mlp").symlink_to(DIGITS)
    broken = tmp_path / "broken" / "1"
    broken.mkdir(parents=True)
    (broken / "model.onnx").write_bytes(b"no model at all")
    return tmp_path


def test_a_model_that_does_not_load_leaves_the_others_serving(tmp_path: Path) -> None:
    with running_server(broken_repository(tmp_path)) as server:
        core = ov.Core(server.grpc_address)
        assert core.served_model("digits_mlp")(ROW)[0].shape == (1, 10)
        with pytest.raises(RuntimeError, match="failed to load 'broken' version 1"):
            core.served_model("broken")
        statuses = {status["name"]: status for status in get(server, "/inferwire/v1/models")["models"]}
        assert statuses["digits_mlp"]["state"] == "ready"
        assert statuses["broken"]["state"] == "failed"
        assert statuses["broken"]["reason"].startswith("Unable to read the model")


def test_why_a_model_did_not_load_is_told_without_where_in_openvinos_sources(tmp_path: Path) -> None:
    with running_server(broken_repository(tmp_path)) as server:
        index = Request(f"http://{server.host}:{server.http_port}/v2/repository/index", method="POST")
        with urlopen(index) as answer:
            told = [entry["reason"] for entry in json.load(answer) if entry["name"] == "broken"]
        (version,) = get(server, "/v1/config")["broken"]["model_version_status"]
        told.append(version["status"]["error_message"])
        told += [each["reason"] for each in get(server, "/inferwire/v1/models")["models"] if each["name"] == "broken"]
        assert [reason.partition(":")[0] for reason in told] == ["Unable to read the model"] * 3


def test_strict_readiness_says_that_a_model_did_not_load(tmp_path: Path) -> None:
    with started("--model-repository", str(broken_repository(tmp_path)), "--strict-readiness") as (server, log):
        wait_for_line(server, log, '"not ready"')
        with pytest.raises(HTTPError) as caught:
            get(server, "/v2/health/ready")
        with caught.value as refusal:
            assert refusal.code == 503


def test_a_repository_and_a_configuration_of_nothing_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    nothing = tmp_path / "nothing.json"
    nothing.write_text('{"model_config_list": []}')
    for flags, reason in (
        (
            ("--model-repository", str(tmp_path / "empty")),
            f"the model repository '{tmp_path / 'empty'}' has no model to",
        ),
        (("--config", str(nothing)), f"the configuration '{nothing}' names no model to serve"),
        ((), "no models are named, expected a folder with --model-repository, or --allow-uploads"),
    ):
        with started(*flags) as (server, log):
            wait_until_ready(server, log)
            assert log_line(log, "nothing to serve")["reason"].startswith(reason)


@pytest.mark.parametrize("device", ["CPU", "AUTO", "AUTO:CPU", "HETERO:CPU", "MULTI:CPU", "BATCH:CPU(4)"])
def test_every_way_to_name_the_device_queues_on_the_cpu(device: str) -> None:
    with running_server(DIGITS, "--device", device) as server:
        assert ov.Core(server.grpc_address).served_model("digits_mlp")(ROW)[0].shape == (1, 10)
        with urlopen(f"http://{server.host}:{server.http_port}/metrics") as answer:
            metrics = answer.read().decode()
        labels = 'device="CPU",model="digits_mlp",outcome="finished",version="1"'
        assert f"inferwire_jobs_total{{{labels}}} 1.0" in metrics


def test_settings_come_from_the_environment_and_flags_win() -> None:
    http_port, grpc_port = free_ports(2)
    environment = os.environ | {
        "INFERWIRE_SERVER_NAME": "of the environment",
        "INFERWIRE_MODEL_REPOSITORY": str(DIGITS),
    }
    command = [sys.executable, "-m", "inferwire_server", "--server-name", "of the flag"]
    ports = ["--http-port", str(http_port), "--grpc-port", str(grpc_port)]
    with TemporaryFile() as log:
        process = subprocess.Popen([*command, *ports], env=environment, stdout=log, stderr=log)
        try:
            server = ServerProcess(process, grpc_port, http_port)
            wait_until_ready(server, log)
            assert get(server, "/v2")["name"] == "of the flag"
            assert get(server, "/v2/models/digits_mlp")["name"] == "digits_mlp"
        finally:
            process.terminate()
            assert process.wait(LIMIT_S) == 0


def test_a_word_that_is_no_flag_is_refused() -> None:
    command = [sys.executable, "-m", "inferwire_server", str(DIGITS)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert refused.returncode == 2
    assert str(DIGITS) in refused.stderr.replace("\n", "")


def test_the_server_s_module_tells_its_version() -> None:
    command = [sys.executable, "-m", "inferwire_server", "--version"]
    assert subprocess.check_output(command, text=True, timeout=LIMIT_S) == f"{version('inferwire')}\n"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_whose_log_nobody_reads_serves_and_ends(workers: str) -> None:
    http_port, grpc_port = free_ports(2)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, mmap.PAGESIZE)
    os.write(writer, bytes(mmap.PAGESIZE))
    command = [sys.executable, "-m", "inferwire_server", "--model-repository", str(DIGITS), "--workers", workers]
    ports = ["--http-port", str(http_port), "--grpc-port", str(grpc_port), "--log-level", "debug"]
    with TemporaryFile() as nothing:
        process = subprocess.Popen([*command, *ports], stderr=writer)
        try:
            server = ServerProcess(process, grpc_port, http_port)
            wait_until_ready(server, nothing)
            assert ov.Core(server.grpc_address).served_model("digits_mlp")(ROW)[0].shape == (1, 10)
            process.terminate()
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()
            process.wait()
            os.close(reader)
            os.close(writer)


def test_a_model_of_which_libraries_tell_the_log_by_themselves_fails_though_nobody_reads_it(tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(b"\x00 is no model")
    http_port, grpc_port = free_ports(2)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, mmap.PAGESIZE)
    os.write(writer, bytes(mmap.PAGESIZE))
    command = [sys.executable, "-m", "inferwire_server", "--model-repository", str(tmp_path)]
    ports = ["--http-port", str(http_port), "--grpc-port", str(grpc_port)]
    with TemporaryFile() as nothing:
        process = subprocess.Popen([*command, *ports], stdout=writer, stderr=writer)
        try:
            wait_until_ready(ServerProcess(process, grpc_port, http_port), nothing)
        finally:
            process.kill()
            process.wait()
            os.close(reader)
            os.close(writer)


def test_variables_that_are_no_settings_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERWIRE_API_KEYS_FILE", "keys")
    monkeypatch.setenv("INFERWIRE_API_KEY", "of a client")
    with started("--allow-uploads", "--workers", "2") as (server, log):
        wait_until_ready(server, log)
        warnings = [line for line in map(json.loads, tail(log).splitlines()) if line["level"] == "warning"]
    assert [(line["event"], line["variable"], line["reason"]) for line in warnings] == [
        (
            "a variable without effect",
            "INFERWIRE_API_KEYS_FILE",
            "INFERWIRE_API_KEYS_FILE is set, and there is no such setting; did you mean INFERWIRE_API_KEY_FILE?",
        )
    ]


def test_a_core_goes_on_with_a_server_that_has_restarted() -> None:
    repository = ("--model-repository", str(DIGITS))
    with started(*repository) as (first, log):
        wait_until_ready(first, log)
        core = ov.Core(first.grpc_address)
        compiled = core.served_model("digits_mlp")
        assert compiled(ROW)[0].shape == (1, 10)
    with pytest.raises(ov.ServerUnavailable):
        compiled(ROW)
    with started(*repository, grpc_port=first.grpc_port) as (second, log):
        wait_until_ready(second, log)
        assert compiled(ROW)[0].shape == (1, 10)
        assert core.available_devices == ["CPU"]


def test_a_core_calls_a_server_through_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "grpc.sock"
    with running_server(DIGITS, "--grpc-socket", str(path)):
        assert ov.Core(f"unix:{path}").served_model("digits_mlp")(ROW)[0].shape == (1, 10)
    assert not path.exists()


def test_a_server_that_the_system_gives_no_thread_says_so() -> None:
    # No address space has room for the stack of such a thread.
    program = (
        "import sys, threading; from inferwire_server.__main__ import run; threading.stack_size(2**47); sys.exit(run())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 1
    assert "cannot serve" in ended.stderr
    assert "no thread could be started: can't start new thread" in ended.stderr
    assert "Traceback" not in ended.stderr
