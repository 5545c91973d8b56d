"""Listing, loading and unloading models from a terminal."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import grpc
import pytest
from rich.console import Console
from tests.client.transport.scripted_server import ScriptedServer
from tests.waiting import LIMIT_S

from inferwire.transport.descriptions import ModelStatus
from inferwire_cli.models.table import Row, as_table
from inferwire_cli.server_process import HOST, ServerProcess, free_ports, running_server
from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_proto.inferwire.v1 import models_pb2 as pb

Run = Callable[..., Any]
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def test_models_are_listed_with_their_states_and_ports(run: Run) -> None:
    done = run("models")
    assert done.returncode == 0, done.stderr
    heading, broken, digits, *_ = done.stdout.splitlines()
    assert heading.split() == ["model", "version", "state", "device", "slots", "inputs,", "→", "outputs"]
    assert broken.split()[:3] == ["broken", "1", "failed"]
    assert digits.split()[:4] == ["digits_mlp", "1", "ready", "CPU"]
    (files,) = (line for line in done.stdout.splitlines() if line.startswith("files "))
    assert files.split()[:5] == ["files", "1", "ready", "CPU", "5"]
    assert "pixels f32[?,64]" in digits
    assert "→ probabilities f32[?,10]" in done.stdout
    (reason,) = (line for line in done.stdout.splitlines() if line.startswith("broken version 1: "))
    # Where it happened in OpenVINO's sources is nothing to an operator.
    assert reason.startswith("broken version 1: Unable to read the model: ")


@pytest.fixture
def ending() -> Iterator[ScriptedServer]:
    """A server that lists one model as ready; the test says what becomes of it then."""
    listed = pb.ListModelsResponse(models=[pb.ModelStatus(name="m", version="1", state=pb.MODEL_STATE_READY)])
    with ScriptedServer() as server:
        server.unary["ListModels"] = lambda request, context: listed.SerializeToString()
        yield server


def refused_with(code: Code) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((CODE_METADATA, code.name),))
        context.abort(grpc.StatusCode[code.grpc], "because")
        return b""

    return refuse


@pytest.mark.parametrize("code", [Code.MODEL_NOT_FOUND, Code.MODEL_NOT_READY, Code.MODEL_FAILED])
def test_a_model_that_takes_no_jobs_any_more_is_listed_as_it_was(run: Run, ending: ScriptedServer, code: Code) -> None:
    ending.unary["GetModel"] = refused_with(code)
    done = run("models", "--json", "--address", f"{HOST}:{ending.port}")
    assert (done.returncode, json.loads(done.stdout)) == (0, [{"name": "m", "version": "1", "state": "ready"}])


@pytest.mark.parametrize("code", [Code.SHUTTING_DOWN, Code.DEADLINE_EXCEEDED, Code.INTERNAL])
def test_a_server_that_fails_between_the_list_and_a_model_is_no_list(
    run: Run, ending: ScriptedServer, code: Code
) -> None:
    ending.unary["GetModel"] = refused_with(code)
    done = run("models", "--json", "--address", f"{HOST}:{ending.port}")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "inferwire: because\n")


def test_models_are_asked_for_at_once_and_listed_in_their_order(run: Run, ending: ScriptedServer) -> None:
    """Over a network each answer takes a round trip, and there may be hundreds."""
    names = ["a", "b", "c", "d"]
    listed = pb.ListModelsResponse(
        models=[pb.ModelStatus(name=name, version="1", state=pb.MODEL_STATE_READY) for name in names]
    )
    ending.unary["ListModels"] = lambda request, context: listed.SerializeToString()
    all_have_come = Barrier(len(names))

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            all_have_come.wait(LIMIT_S)
        except BrokenBarrierError:
            context.abort(grpc.StatusCode.INTERNAL, "it came alone")
        asked = pb.GetModelRequest.FromString(request)
        return pb.GetModelResponse(model=pb.ModelInfo(name=asked.name, slots=ord(asked.name))).SerializeToString()

    ending.unary["GetModel"] = answer
    done = run("models", "--json", "--address", f"{HOST}:{ending.port}")
    assert done.returncode == 0, done.stderr
    assert [(each["name"], each["slots"]) for each in json.loads(done.stdout)] == [(name, ord(name)) for name in names]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal(run: Run, width: int) -> None:
    done = run("models", COLUMNS=str(width))
    assert max(len(line) for line in done.stdout.splitlines()) <= width
    if width > 60:  # the repository has a name that is too long there
        assert "efficientnet_lite0" in done.stdout


def test_short_names_are_not_broken() -> None:
    table = as_table([Row(ModelStatus("efficientnet_lite0", "1", "failed", "no such file"), None)])
    console = Console(file=StringIO(), width=60, record=True)
    console.print(table)
    assert "efficientnet_lite0" in console.export_text()


def test_a_long_name_leaves_everything_else_whole() -> None:
    names = [f"{'customer-segments-' * 4}{place}" for place in ("east", "west")]
    table = as_table([Row(ModelStatus(name, "1", "failed", "no such file"), None) for name in names])
    console = Console(file=StringIO(), width=80, record=True)
    console.print(table)
    headings, *lines = console.export_text().splitlines()
    assert [word for word in ("version", "state", "device", "slots") if word not in headings] == []
    assert [line.split()[1:] for line in lines if len(line.split()) > 1] == [["1", "failed"]] * 2
    assert "".join(line.split()[0] for line in lines) == "".join(names)


def test_as_json_a_program_reads_them(run: Run) -> None:
    listed = {each["name"]: each for each in json.loads(run("models", "--json").stdout)}
    digits = listed["digits_mlp"]
    assert digits["inputs"] == [{"name": "pixels", "type": "f32", "shape": "[?,64]"}]
    assert digits["devices"] == ["CPU"]
    assert listed["files"]["slots"] == 5
    assert "reason" in listed["broken"]
    assert "inputs" not in listed["broken"]


def test_a_model_is_unloaded_and_loaded(run: Run) -> None:
    assert run("unload", "silero_vad_stateful").stdout == "silero_vad_stateful: unloaded\n"
    listed = {each["name"]: each["state"] for each in json.loads(run("models", "--json").stdout)}
    assert listed["silero_vad_stateful"] == "unloaded"
    loaded = run("load", "silero_vad_stateful")
    assert loaded.returncode == 0
    assert loaded.stdout.startswith("silero_vad_stateful: version 1 ready after ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("load", "nobody"), "the server's repository has no model 'nobody'; there are 'broken', 'digits_mlp', "),
        (("load", "broken"), "failed to load 'broken' version 1: "),
        (("unload", "nobody"), "no model 'nobody'; there are 'broken', 'digits_mlp', "),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(run: Run, words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["load", "unload"])
def test_an_empty_name_is_that_of_no_model(run: Run, command: str) -> None:
    done = run(command, "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the model's name is empty" in done.stderr


@pytest.mark.parametrize("words", [("load", "\udcff"), ("infer", "\udcff"), ("bench", "files", "-i", "\udcff")])
def test_what_is_no_utf_8_is_named(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr == "inferwire: '\\udcff' is not in UTF-8, as names and texts have to be\n"


@pytest.mark.parametrize("words", [("models",), ("models", "--help")])
def test_a_terminal_that_says_it_has_no_columns_shows_all(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words, COLUMNS="0")
    assert done.returncode == 0
    assert " models " in done.stdout or "model  " in done.stdout


def test_a_name_is_shown_as_it_is(run: Run, unusual: str) -> None:
    assert run("unload", unusual).stdout == f"{unusual}: unloaded\n"
    assert run("load", unusual).stdout.startswith(f"{unusual}: version 1 ready after ")
    assert f"\n{unusual}  1 " in run("models").stdout
    assert run("infer", unusual, "-i", str([0] * 64)).stdout.startswith(f"{unusual} version 1 on CPU: ")
    assert f"\n{unusual}  1 " in run("top").stdout
    done = run("load", "[/bold]")
    assert done.stderr.startswith("inferwire: the server's repository has no model '[/bold]'; there are ")


def test_a_server_that_is_not_there_is_named(run: Run) -> None:
    (port,) = free_ports(1)
    done = run("models", "--address", f"{HOST}:{port}")
    assert done.returncode == 1
    assert f"no inferwire server answers at {HOST}:{port}" in done.stderr


def test_an_address_that_is_none_is_misuse(run: Run) -> None:
    done = run("models", INFERWIRE_ADDRESS="http://localhost")
    assert done.returncode == 2
    assert done.stderr == (
        "inferwire: address 'http://localhost' is not host:port, grpc://host:port, grpcs://host:port or unix:path; "
        "URLs are for REST calls: give the host and its gRPC port, as localhost:8001\n"
    )


@pytest.mark.parametrize("words", [("--json",), ()])
def test_a_reader_that_has_had_enough_is_no_error(server: ServerProcess, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "inferwire_cli", "models", *words, "--address", server.grpc_address]
    # Python can be told to give each line away at once, which would raise earlier than it does for most.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60, env=buffered
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_streams_that_are_closed_and_a_full_disk_are_no_tracebacks(server: ServerProcess) -> None:
    models = [sys.executable, "-m", "inferwire_cli", "models", "--address", server.grpc_address]

    def run_in_a_shell(words: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
        line = f"{shlex.join(words)} {redirection}"
        return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)

    for words in (models, [*models, "--json"]):
        done = run_in_a_shell(words, "<&- >&-")
        assert (done.returncode, done.stderr) == (0, "")
        done = run_in_a_shell(words, ">/dev/full")
        assert (done.returncode, done.stderr) == (1, "inferwire: [Errno 28] No space left on device\n")
        assert run_in_a_shell(words, "2>&-").stdout


@pytest.mark.parametrize("words", [("models",), ("bench", "digits_mlp", "--number", "9")])
def test_a_terminal_without_unicode_has_signs_in_their_place(server: ServerProcess, words: tuple[str, ...]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "INFERWIRE_ADDRESS": server.grpc_address}
    command = [sys.executable, "-m", "inferwire_cli", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "?" in done.stdout


def test_a_server_that_does_not_allow_it_says_what_to_start_it_with() -> None:
    with running_server(DEPLOY / "models/digits_mlp") as server:
        command = [sys.executable, "-m", "inferwire_cli", "load", "digits_mlp", "--address", server.grpc_address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "--allow-model-control" in done.stderr
