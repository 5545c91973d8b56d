"""The life and death of workers: they are ready together, end together, and leave nothing."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import stat
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
import openvino
import pytest
from tests.child_processes import followers_of
from tests.system.servers import insist, log_lines, save_slow_model, started, wait_for, wait_for_line
from tests.system.workers.doors import V1, Door, opened_doors, rest, rest_tensor
from tests.waiting import LIMIT_S, wait_until

from inferwire_cli.server_process import ServerProcess, running_server, tail, wait_until_ready
from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2
from inferwire_server.openvino_backend.compile_cache import alone_in

MODELS = Path(__file__).resolve().parents[3] / "deploy/models"
DIGITS = ("--model-repository", str(MODELS / "digits_mlp"))
LISTENS = 1 << 16
"""A socket's flag in what the system says of it."""


@pytest.fixture
def temporary(short_folder: Path) -> Path:
    """Where servers have their temporary files: nothing is to be left there."""
    (short_folder / "t").mkdir()
    return short_folder / "t"


def running_followers(server: ServerProcess, count: int = 1) -> list[int]:
    """Wait until a server's other processes run their program, and give their ids."""
    wait_for(server, lambda: len(followers_of(server.process.pid)) >= count)
    return followers_of(server.process.pid)


def unix_sockets(*pids: int) -> Iterator[str]:
    """Give where processes listen beside their ports. Names that are no files begin with an @."""
    files: set[str] = set()
    for file in (file for pid in pids for file in Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(FileNotFoundError):
            files.add(str(file.readlink()))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if f"socket:[{fields[6]}]" in files and int(fields[3], 16) & LISTENS:
            yield fields[7]


@contextmanager
def watched(pid: int) -> Generator[Callable[[], bool]]:
    """Give what waits for the end of a process that is not this one's child, and says whether it has come."""
    end = os.pidfd_open(pid)
    try:
        yield lambda: bool(select.select([end], [], [], LIMIT_S)[0])
    finally:
        os.close(end)


def assert_no_process_is_left(server: ServerProcess) -> None:
    with pytest.raises(ProcessLookupError):
        os.killpg(server.process.pid, 0)


def assert_nothing_is_left(server: ServerProcess, temporary: Path) -> None:
    assert not list(temporary.iterdir())
    assert_ports_are_free(server)


def assert_ports_are_free(server: ServerProcess) -> None:
    for port in (server.grpc_port, server.http_port):
        socket.create_server((server.host, port)).close()


def errors(log: IO[bytes]) -> list[str]:
    assert "Traceback" not in tail(log)
    return [line.get("reason", line["event"]) for line in log_lines(log) if line["level"] == "error"]


@contextmanager
def slow_workers(temporary: Path, products: int, *flags: str) -> Generator[tuple[ServerProcess, IO[bytes], list[Door]]]:
    """Serve a slow model with two workers, and open a door to each."""
    models = temporary.parent / "models"
    save_slow_model(models, products)
    (models / "digits_mlp").symlink_to(MODELS / "digits_mlp")
    flags = ("--workers", "2", "--model-repository", str(models), *flags)
    pixels = np.zeros((1, 64), np.float32)
    with started(*flags, temporary=temporary) as (server, log):
        wait_until_ready(server, log)
        with opened_doors(server, 2, "digits_mlp", "pixels", pixels) as doors:
            yield server, log, doors


SLOW = {"inputs": [rest_tensor("data", np.ones(1, np.float32))]}


def start_jobs(doors: list[Door]) -> list[str]:
    """Have each worker run a slow inference."""
    return [door.rest("POST", "/inferwire/v1/models/slow/jobs", SLOW).json["id"] for door in doors]


def wait_for_running(door: Door, count: int) -> None:
    request, answer = devices_pb2.ListDevicesRequest(), devices_pb2.ListDevicesResponse
    wait_until(lambda: door.call("inferwire.v1.DeviceService.ListDevices", request, answer).devices[0].running >= count)


def signal_first(server: ServerProcess, _log: IO[bytes]) -> None:
    server.process.terminate()


def signal_all(server: ServerProcess, log: IO[bytes]) -> None:
    """Have the follower hear of it twice, from the first worker and by the signal."""
    (follower,) = running_followers(server)
    os.kill(follower, signal.SIGSTOP)
    server.process.terminate()
    wait_for_line(server, log, "stopping")
    os.kill(follower, signal.SIGTERM)
    os.kill(follower, signal.SIGCONT)


@pytest.mark.parametrize("to", [signal_first, signal_all])
def test_after_a_signal_both_finish_what_runs_and_the_exit_code_is_0(temporary: Path, to: Any) -> None:
    with slow_workers(temporary, 300) as (server, log, doors), ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(door.rest, "POST", "/v2/models/slow/infer", SLOW) for door in doors]
        wait_for_running(doors[0], 2)
        to(server, log)
        assert [call.result(LIMIT_S).status for call in calls] == [200, 200]
        assert server.process.wait(LIMIT_S) == 0
        ends = [line for line in log_lines(log) if line["event"] == "stopped"]
        assert {(line["worker"], line["cancelled"]) for line in ends} == {(1, 0), (2, 0)}
        assert_no_process_is_left(server)
        assert_nothing_is_left(server, temporary)


def begun(door: Door, path: str) -> HTTPResponse:
    """Make an HTTP call that is sure to have begun: it came together with one that is answered."""
    connection: Any = door.http
    connection.sock.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" * 2 % (b"/v2/health/live", path.encode()))
    live = HTTPResponse(connection.sock, method="GET")
    live.begin()
    assert live.status == 200
    return HTTPResponse(connection.sock, method="GET")


def test_after_a_signal_who_waits_for_another_worker_s_job_still_hears_of_its_end(temporary: Path) -> None:
    with slow_workers(temporary, 300) as (server, _, doors):
        jobs = start_jobs(doors)[::-1]
        wait_for_running(doors[0], 2)
        waits = [begun(door, f"/inferwire/v1/jobs/{job}?wait_s=60") for door, job in zip(doors, jobs, strict=True)]
        for door, job in zip(doors, jobs, strict=True):
            # Workers call each other on one connection: once this is answered, what went before it is there.
            door.call(f"{V1}.Wait", inference_pb2.WaitRequest(job_id=job), inference_pb2.WaitResponse)
        server.process.terminate()
        for wait in waits:
            wait.begin()
            assert json.loads(wait.read())["state"] == "finished"
        assert server.process.wait(LIMIT_S) == 0


def test_work_that_outlasts_the_grace_is_cancelled_in_both(temporary: Path) -> None:
    with slow_workers(temporary, 1000, "--grace-s", "0.1") as (server, log, doors):
        start_jobs(doors)
        wait_for_running(doors[0], 2)
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0
        ends = [line for line in log_lines(log) if line["event"] == "stopped"]
        assert {(line["worker"], line["cancelled"]) for line in ends} == {(1, 1), (2, 1)}
        assert_no_process_is_left(server)
        assert_nothing_is_left(server, temporary)


def test_a_second_signal_ends_both_at_once(temporary: Path) -> None:
    with slow_workers(temporary, 1000, "--grace-s", "600") as (server, log, doors):
        start_jobs(doors)
        (follower,) = running_followers(server)
        with watched(follower) as has_ended:
            server.process.terminate()
            wait_for_line(server, log, "stopping")
            insist(server)
            assert server.process.wait(LIMIT_S) == 128 + signal.SIGTERM
            assert has_ended()
        assert_ports_are_free(server)


def test_a_worker_that_dies_takes_the_server_with_it(temporary: Path) -> None:
    with started("--workers", "3", *DIGITS, temporary=temporary) as (server, log):
        wait_until_ready(server, log)
        os.kill(running_followers(server, 2)[1], signal.SIGKILL)
        assert server.process.wait(LIMIT_S) == 1
        assert errors(log) == ["worker 3 has been ended by SIGKILL"]
        assert_no_process_is_left(server)
        assert_nothing_is_left(server, temporary)


def test_a_worker_that_dies_takes_the_server_with_it_while_another_loads(temporary: Path, tmp_path: Path) -> None:
    """What is inside the runtime then is left there: the interpreter is not to end around it."""
    flags = ("--workers", "2", "--cache-dir", str(tmp_path / "cache"), "--grace-s", "0.1")
    with alone_in(tmp_path / "cache"), started(*flags, *DIGITS, temporary=temporary) as (server, log):
        waiting = "waiting for another that compiles into the cache"
        wait_for(server, lambda: [line["event"] for line in log_lines(log)].count(waiting) == 2, log)
        os.kill(running_followers(server)[0], signal.SIGKILL)
        assert server.process.wait(LIMIT_S) == 1
        assert errors(log) == ["worker 2 has been ended by SIGKILL"]
        assert log_lines(log)[-1]["event"] == "an inference or a load did not stop, the process ends without it"
        assert_no_process_is_left(server)
        assert_nothing_is_left(server, temporary)


def test_a_first_worker_that_dies_takes_the_others_with_it(temporary: Path) -> None:
    with started("--workers", "2", *DIGITS, temporary=temporary) as (server, log):
        wait_until_ready(server, log)
        with watched(running_followers(server)[0]) as has_ended:
            server.process.kill()
            server.process.wait(LIMIT_S)
            assert has_ended()
        assert errors(log) == ["the first worker has gone, and the server with it"]
    (left,) = temporary.iterdir()
    with started("--workers", "2", *DIGITS, temporary=temporary) as (server, log):
        wait_until_ready(server, log)
        (found,) = temporary.iterdir()
        assert found != left, "the next server removes what a killed one has left"
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0
        assert_nothing_is_left(server, temporary)


def test_workers_meet_where_nobody_but_their_user_may_go(temporary: Path) -> None:
    with started("--workers", "2", *DIGITS, temporary=temporary) as (server, log):
        wait_until_ready(server, log)
        (folder,) = temporary.iterdir()
        assert (stat.S_IMODE(folder.stat().st_mode), folder.stat().st_uid) == (0o700, os.geteuid())
        sockets = {f"{folder}/{way}-{worker}" for way in ("calls", "connections") for worker in (0, 1)}
        assert set(unix_sockets(server.process.pid, *running_followers(server))) == sockets
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0
        assert_nothing_is_left(server, temporary)


def health(server: ServerProcess) -> tuple[str, int]:
    """Ask a worker whether it is ready: which one, and its answer."""
    with closing(HTTPConnection(server.host, server.http_port, timeout=LIMIT_S)) as http:
        answer = rest(http, "GET", "/v2/health/ready")
    return dict(answer.headers)["x-request-id"][:8], answer.status


def test_none_is_ready_before_all_are(temporary: Path) -> None:
    with started("--workers", "3", *DIGITS, temporary=temporary) as (server, log):
        late = running_followers(server, 2)[1]
        os.kill(late, signal.SIGSTOP)
        wait_for_line(server, log, "listening")
        said: set[tuple[str, int]] = set()
        while len(said) < 2:
            said.add(health(server))
        assert {status for _, status in said} == {503}
        os.kill(late, signal.SIGCONT)
        wait_until_ready(server, log)
        said.clear()
        while len(said) < 3:
            said.add(health(server))
        assert {status for _, status in said} == {200}
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0


def test_a_signal_before_all_have_begun_is_no_error(temporary: Path) -> None:
    with started("--workers", "2", *DIGITS, temporary=temporary) as (server, log):
        (late,) = running_followers(server)
        os.kill(late, signal.SIGSTOP)
        wait_for_line(server, log, "listening")
        server.process.terminate()
        wait_for_line(server, log, "stopping")
        os.kill(late, signal.SIGCONT)
        assert server.process.wait(LIMIT_S) == 0
        assert {line["level"] for line in log_lines(log)} == {"info"}
        assert_no_process_is_left(server)
        assert_nothing_is_left(server, temporary)


def until_it_holds_back(server: ServerProcess, pid: int, number: signal.Signals) -> None:
    """Wait until a follower's own program has begun: before, a signal does what Python has it do."""

    def is_held_back() -> bool:
        (held_back,) = re.findall(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
        return bool(int(held_back, 16) >> number - 1 & 1)

    wait_for(server, is_held_back)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nor_is_one_that_each_process_is_sent_while_it_starts(temporary: Path, number: signal.Signals) -> None:
    with started("--workers", "2", *DIGITS, temporary=temporary) as (server, log):
        (late,) = running_followers(server)
        until_it_holds_back(server, late, number)
        os.kill(late, number)
        server.process.send_signal(number)
        assert server.process.wait(LIMIT_S) == 0
        assert {line["level"] for line in log_lines(log)} == {"info"}
        assert_no_process_is_left(server)
        assert_nothing_is_left(server, temporary)


def test_what_cannot_be_served_is_one_line(temporary: Path) -> None:
    with started("--workers", "2", "--model-repository", "nowhere", temporary=temporary) as (server, log):
        assert server.process.wait(LIMIT_S) == 1
        assert errors(log) == ["the model repository 'nowhere' does not exist"]
        events = [line["event"] for line in log_lines(log)]
        assert events == ["starting", "reading the models", "cannot serve"]
        assert len(tail(log).splitlines()) == 3
        assert_no_process_is_left(server)
        assert_nothing_is_left(server, temporary)


def test_the_log_begins_with_what_is_started_and_how(temporary: Path) -> None:
    flags = ("--workers", "2", "--model-repository", "nowhere", "--property", "A=1", "--grace-s", "30")
    with started(*flags, temporary=temporary) as (server, log):
        assert server.process.wait(LIMIT_S) == 1
        first = log_lines(log)[0]
        assert (first["event"], first["worker"]) == ("starting", 1)
        assert (first["version"], first["openvino"]) == (version("inferwire"), openvino.get_version())
        ports = {"http_port": server.http_port, "grpc_port": server.grpc_port}
        assert first["settings"] == {"model_repository": "nowhere", "properties": ["A=1"], "workers": 2, **ports}


@pytest.mark.parametrize(
    ("first", "others"),
    [("2", [("1", "grpc"), ("1", "http"), ("2", "grpc")]), ("1", [("2", "http")])],
    ids=["with several", "with one"],
)
def test_workers_share_their_ports_with_nobody_else(temporary: Path, first: str, others: list[tuple[str, str]]) -> None:
    with running_server(MODELS / "digits_mlp", "--workers", first) as running:
        ports = {"grpc": running.grpc_port, "http": running.http_port}
        for workers, way in others:
            grpc_port, http_port = (ports[way] if way == which else 0 for which in ("grpc", "http"))
            flags = ("--workers", workers, *DIGITS)
            with started(*flags, grpc_port=grpc_port, http_port=http_port, temporary=temporary) as (server, log):
                assert server.process.wait(LIMIT_S) == 1
                (reason,) = errors(log)
                assert f"{server.host}:{ports[way]}: another process uses the port" in reason
                assert_no_process_is_left(server)
        assert not list(temporary.iterdir())


def test_a_body_that_could_not_go_from_worker_to_worker_is_refused_at_the_start(temporary: Path) -> None:
    limits = ("--max-http-body-mb", "8", "--max-grpc-message-mb", "8")
    with started("--workers", "2", *DIGITS, *limits, temporary=temporary) as (server, log):
        assert server.process.wait(LIMIT_S) == 1
        (error,) = errors(log)
        assert error.startswith("--max-http-body-mb is 8, expected less than --max-grpc-message-mb, which is 8:")
        assert_no_process_is_left(server)


def test_workers_import_nothing_from_the_folder_they_are_started_in(tmp_path: Path) -> None:
    (tmp_path / "structlog.py").write_text("raise SystemExit('this is somebody else's')")
    with started("--workers", "2", *DIGITS, folder=tmp_path) as (server, log):
        wait_until_ready(server, log)
        server.process.terminate()
        assert server.process.wait(LIMIT_S) == 0
