"""Runs every command in the README as it is written there, but for the ports."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from urllib.request import urlopen

import pytest

from inferwire_cli.server_process import ServerProcess, free_ports, running_server, tail, wait_until_ready

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


COMMANDS = [line.removeprefix("$ ") for block in blocks("console") for line in block.replace("\\\n", "").splitlines()]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server(ROOT / "deploy/models") as running:
        yield running


@contextmanager
def serving(command: list[str]) -> Generator[ServerProcess]:
    """Run a command that serves until it is told to stop, on ports of its environment, and see it end in order."""
    grpc_port, http_port = free_ports(2)
    ports = {"INFERWIRE_HTTP_PORT": str(http_port), "INFERWIRE_GRPC_PORT": str(grpc_port)}
    with TemporaryFile() as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT | ports, stdout=log, stderr=log, start_new_session=True
        )
        try:
            server = ServerProcess(process, grpc_port, http_port)
            wait_until_ready(server, log)
            yield server
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(60)  # make's own exit code says that it was interrupted
            assert '"event": "stopped", "cancelled": 0' in tail(log)


def run(command: str) -> str:
    done = subprocess.run(
        shlex.split(command), cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def demo(command: str) -> None:
    answer = run(command)
    assert answer.count("espresso") == 4


def check(command: str) -> None:
    # That command runs this test itself, so the test only checks that it would run every check.
    plan = run(command.replace("make", "make --dry-run", 1))
    for tool in ("ruff format --check", "ruff check", "pyright", "buf lint", "buf breaking", "hadolint", "pytest"):
        assert tool in plan


def serve(command: str) -> None:
    with serving(shlex.split(command)) as server:
        url = f"http://{server.host}:{server.http_port}/v2/models/digits_mlp"
        with urlopen(url) as answer:
            assert json.load(answer)["name"] == "digits_mlp"


def show_help(command: str) -> None:
    assert "--model-repository" in run(command)


def show_help_of_programs(command: str) -> None:
    assert "--address" in run(command)


def installed(command: str) -> str:
    """Give a command of the environment that the README makes as one of this environment."""
    return command.removeprefix("~/inferwire/bin/")


def make_environment(command: str) -> None:
    with TemporaryDirectory() as folder:
        run(command.replace("~/inferwire", f"{folder}/environment").replace("venv", "venv --without-pip", 1))
        assert (Path(folder) / "environment/bin/python3").exists()


def install(command: str) -> None:
    # The packages to install are only resolved; the tests of packaging install them.
    own = command.replace("~/inferwire/bin/pip", f"{sys.executable} -m pip", 1)
    assert "Would install" in run(own.replace("install", "install --dry-run --ignore-installed --no-deps", 1))


def build_image(command: str) -> None:
    # An engine to build with is not there everywhere; what the commands name has to be.
    assert (ROOT / "Dockerfile").is_file()
    for path in re.findall(r"--file (\S+)", command):
        assert (ROOT / path).is_file()


RUNNERS: list[tuple[str, Callable[[str], None]]] = [
    ("make demo", demo),
    ("make check", check),
    ("make serve", serve),
    ("~/inferwire/bin/inferwire serve --help", lambda command: show_help(installed(command))),
    ("~/inferwire/bin/inferwire serve --model-repository", lambda command: serve(installed(command))),
    ("python3 -m venv", make_environment),
    ("python -m inferwire --help", show_help_of_programs),
    ("~/inferwire/bin/pip install", install),
    ("docker", build_image),
]


CALLS_A_SERVER = ("curl ", "inferwire models", "inferwire infer", "inferwire bench", "inferwire top")


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith(CALLS_A_SERVER)])
def test_a_command_works(command: str) -> None:
    runner = next((runner for prefix, runner in RUNNERS if command.startswith(prefix)), None)
    assert runner is not None, f"no test knows how to run {command!r}"
    runner(command)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("inferwire models", "→ probabilities f32[?,10]"),
        ("inferwire infer", "espresso (967)"),
        ("inferwire bench", "answered, 0 failed"),
        ("inferwire top", "p99 ms"),
    ],
)
def test_an_operators_command_works(command: str, said: str, server: ServerProcess) -> None:
    addresses = f" --address {server.grpc_address}"
    if command in ("inferwire bench", "inferwire top"):
        addresses += f" --http-address {server.http_address}"
    (written,) = (each for each in COMMANDS if each.startswith(command))
    assert said in run(written + addresses)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("curl")])
def test_a_rest_call_is_answered(command: str, server: ServerProcess) -> None:
    arguments = run(shlex.join(["bash", "-c", f'curl() {{ printf "%s\\n" "$@"; }}; {command}'])).splitlines()
    url = next(argument for argument in arguments if "localhost:8000" in argument)
    body = arguments[arguments.index("-d") + 1].encode() if "-d" in arguments else None
    with urlopen("http://" + url.replace("localhost:8000", f"{server.host}:{server.http_port}"), body) as answer:
        said = answer.read().decode()
    expected = '"outputs":[{"name":"probabilities"' if body is not None else ""
    assert expected in said


@pytest.mark.parametrize("block", blocks("python"))
def test_a_program_runs(block: str, server: ServerProcess) -> None:
    program = block.replace("127.0.0.1:8001", server.grpc_address)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    numbers = done.stdout.split()
    assert len(numbers) == 33 + ("latency" in block), done.stdout
    assert [float(number) for number in numbers]


def test_the_first_minute_is_the_demo_alone() -> None:
    (first,) = re.findall(r"^## Sixty seconds to a result\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^\$ (.+)$", first, re.MULTILINE) == ["make demo"]


def test_what_is_pasted_into_a_new_shell_is_found_there() -> None:
    (install,) = re.findall(r"^## Installing\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ (\S+)", install, re.MULTILINE)
    assert set(commands) == {"python3", "~/inferwire/bin/pip", "~/inferwire/bin/inferwire", "docker"}


def test_nothing_is_left_to_fill_in() -> None:
    assert not re.search(r"^[A-Z]{4,}$|\b(TODO|TBD|FIXME)\b", README, re.MULTILINE)
