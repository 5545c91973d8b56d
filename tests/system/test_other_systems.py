"""What calls a server from macOS or Windows: the SDK, and the commands. Both systems are Linux without what they lack.

`other_systems` takes it away. What these tests cannot tell is whether the systems do the same where they have the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.system.servers import save_slow_model, serving

from inferwire_cli.server_process import ServerProcess, free_ports

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "deploy/models"
COFFEE = ROOT / "deploy/images/coffee.png"
LIMIT_S = 120

TEXTS = {"PYTHONIOENCODING": "cp1252", "PYTHONWARNDEFAULTENCODING": "1", "PYTHONWARNINGS": "error::EncodingWarning"}
"""What is printed is in an encoding of Windows, and a file that is read or written in whatever is usual is an error."""

PROGRAM = """
import os
import sys
import threading
from pathlib import Path

import numpy as np
import inferwire as ov
from inferwire.transport.lent_memory import new_memory
from inferwire_proto.host.bounded_files import read_bounded

address, model = sys.argv[1:]
row = np.zeros((1, 64), np.float32)


def is_on_socket():
    return any(each.name == "inferwire-writer" for each in threading.enumerate())


core = ov.Core(address)
assert core.available_devices == ["CPU"]
digits = core.served_model("digits_mlp")
request = digits.create_infer_request()
expected = request.infer(row)[0]
assert expected.shape == (1, 10)
print("on a socket" if is_on_socket() else "on gRPC")
request.start_async(row)
request.wait()
assert np.array_equal(request.results[0], expected)

seen = []
queue = ov.AsyncInferQueue(digits, 4)
queue.set_callback(lambda request, index: seen.append(index))
for index in range(32):
    queue.start_async(row, index)
queue.wait_all()
assert sorted(seen) == list(range(32))

# A folder of Windows has such a name here, as a whole.
for own in (core.compile_model(core.read_model(model), "CPU"), core.compile_model(Path(model), "CPU")):
    assert own(row)[0].shape == (1, 10)

assert new_memory(1 << 20) is None
assert read_bounded(Path(os.devnull)) == b""
large = np.arange(3 << 20, dtype=np.float32).reshape(1, -1)
twice = core.served_model("twice")
for _ in range(3):
    assert np.array_equal(twice(large)[0], large * 2)
first, second = twice.create_infer_request(), twice.create_infer_request()
first.infer(large)
second.set_input_tensor(first.get_output_tensor())
second.infer()
assert np.array_equal(second.get_output_tensor().data, large * 4)

voice = core.served_model("silero_vad_stateful").create_infer_request()
chunk = np.ones((1, 576), np.float32)
once, again = voice.infer([chunk])[0].copy(), voice.infer([chunk])[0].copy()
assert not np.array_equal(once, again)
voice.reset_state()
assert np.array_equal(voice.infer([chunk])[0], once)

remote = core.create_context("CPU", {}).create_tensor(ov.Type.f32, ov.Shape([1, 64]), {})
remote.copy_from(ov.Tensor(row))
request.set_input_tensor(remote)
request.infer()
assert np.array_equal(request.get_output_tensor().data, expected)
request = digits.create_infer_request()

slow = core.served_model("slow")
request_of_slow, queue = slow.create_infer_request(), ov.AsyncInferQueue(slow, 1)
one = np.ones(1, np.float32)
request_of_slow.start_async(one)
request_of_slow.cancel()
try:
    request_of_slow.wait()
except RuntimeError as error:
    print(error)


def interrupt(wait, has_ended):
    try:
        print("interrupt", flush=True)
        wait()
    except KeyboardInterrupt:
        print("it has ended" if has_ended() else "interrupted")


request_of_slow.start_async(one)
assert not request_of_slow.wait_for(250)
interrupt(request_of_slow.wait, lambda: request_of_slow.wait_for(0))
request_of_slow.cancel()
queue.start_async(one)
interrupt(queue.wait_all, queue.is_ready)
queue[0].cancel()

print("restart", flush=True)
sys.stdin.readline()
assert np.array_equal(request.infer(row)[0], expected)
core.close()
print("done")
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example models, one that takes long, and one that gives twice what it takes."""
    folder = tmp_path_factory.mktemp("repository")
    for each in ("digits_mlp", "efficientnet_lite0", "silero_vad_stateful"):
        (folder / each).symlink_to(MODELS / each)
    save_slow_model(folder, products=250, rows=2048)
    data = op.parameter([1, -1], np.float32, name="data")
    runtime: Any = openvino
    twice = runtime.Model([op.multiply(data, op.constant(np.array(2, np.float32)))], [data], "twice")
    openvino.save_model(twice, folder / "twice/1/twice.xml")
    return folder


@contextmanager
def served(repository: Path, port: int) -> Generator[ServerProcess]:
    with serving(repository, port, "--allow-uploads", "--allow-model-control", "--device", "CPU") as server:
        yield server


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[ServerProcess]:
    with served(repository, free_ports(1)[0]) as server:
        yield server


@pytest.fixture
def environments(tmp_path: Path) -> dict[str, dict[str, str]]:
    """The variables by which every Python is one of a system, by its name."""
    return {system: _environment(system, tmp_path / system) for system in ("darwin", "win32")}


def _environment(system: str, site: Path) -> dict[str, str]:
    site.mkdir()
    become = f"from tests.system.other_systems import become\nbecome({system!r})\n"
    (site / "sitecustomize.py").write_text(become)
    found_in = (str(site), str(ROOT), *filter(None, (os.environ.get("PYTHONPATH"),)))
    return os.environ | {"PYTHONPATH": os.pathsep.join(found_in), **TEXTS}


def test_programs_infer(repository: Path, environments: dict[str, dict[str, str]], port: int, tmp_path: Path) -> None:
    (tmp_path / r"C:\models").mkdir()
    for each in (MODELS / "digits_mlp/1").iterdir():
        (tmp_path / r"C:\models" / each.name).symlink_to(each)
    said: dict[str, list[str]] = {}
    with ExitStack() as programs:
        running: dict[str, subprocess.Popen[str]] = {}
        with served(repository, port) as server:
            words = [sys.executable, "-W", "error", "-c", PROGRAM, server.grpc_address, r"C:\models/digits_mlp.xml"]
            for system, environment in environments.items():
                running[system] = programs.enter_context(started(words, environment, tmp_path))
                said[system] = list(_until_the_restart(running[system]))
        with served(repository, port):
            for system, program in running.items():
                rest, errors = program.communicate("\n", LIMIT_S)
                said[system] += [*rest.splitlines(), *errors.splitlines()]
    cancelled = "Infer Request was canceled"
    assert said == {
        "darwin": ["on a socket", cancelled, *("interrupt", "interrupted") * 2, "restart", "done"],
        "win32": ["on gRPC", cancelled, *("interrupt", "interrupted") * 2, "restart", "done"],
    }


@contextmanager
def started(words: Sequence[str], environment: dict[str, str], folder: Path) -> Generator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    program = subprocess.Popen(words, env=environment, cwd=folder, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
    with program:
        try:
            yield program
        finally:
            program.kill()


def _until_the_restart(program: subprocess.Popen[str]) -> Iterator[str]:
    """Give the lines that the program says until it waits for another server, and interrupt it where it says so."""
    assert program.stdout is not None
    for line in program.stdout:
        yield line.strip()
        if line == "interrupt\n":
            program.send_signal(signal.SIGINT)
        if line == "restart\n":
            return


COMMANDS = """
import json
import sys

from inferwire_cli.__main__ import main

for words in json.loads(sys.argv[1]):
    print(f"{words[0]} ends with {main(words)}", flush=True)
"""


def test_commands_that_call_a_server_run(
    server: ServerProcess, environments: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    np.save(tmp_path / "pixels.npy", np.zeros((1, 64), np.float32))
    (tmp_path / "request.json").write_text(json.dumps([[0.5] * 64]), encoding="utf-8")
    commands = [
        ["models"],
        ["infer", "efficientnet_lite0", "-i", str(COFFEE), "--mean", "127", "--scale", "128"],
        ["infer", "digits_mlp", "-i", str(tmp_path / "pixels.npy"), "--save", str(tmp_path / "answer.npz")],
        ["infer", "digits_mlp", "-i", str(tmp_path / "request.json")],
        *(["bench", "digits_mlp", "--number", "20", "--path", path] for path in ("sdk", "grpc", "rest")),
        ["top"],
        ["unload", "digits_mlp"],
        ["load", "digits_mlp"],
        ["serve"],
        ["demo"],
    ]
    for system, environment in environments.items():
        where = {"INFERWIRE_ADDRESS": server.grpc_address, "INFERWIRE_HTTP_ADDRESS": server.http_address}
        done = subprocess.run(
            [sys.executable, "-c", COMMANDS, json.dumps(commands)],
            env=environment | where,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        failed = "does not run on this system ({}): a server needs Linux; commands that call one do not"
        assert done.stderr.splitlines() == [f"inferwire {each} {failed.format(system)}" for each in ("serve", "demo")]
        ended = [line for line in done.stdout.splitlines() if " ends with " in line]
        assert ended == [f"{words[0]} ends with {2 if words[0] in ('serve', 'demo') else 0}" for words in commands]
        assert "espresso" in done.stdout
        with np.load(tmp_path / "answer.npz") as answer:
            assert answer["probabilities"].shape == (1, 10)


OPENVINO_PROGRAM = """
import sys
import openvino

print(openvino.Core().available_devices, *sys.argv[1:], sep="|")
sys.exit(3)
"""


def test_programs_written_for_openvino_run(
    server: ServerProcess, environments: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(OPENVINO_PROGRAM)
    for environment in environments.values():
        words = ["-m", "inferwire", "--address", server.grpc_address, str(tmp_path / "program.py"), "a picture.png", ""]
        done = subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, "['CPU']|a picture.png|\n", "")
