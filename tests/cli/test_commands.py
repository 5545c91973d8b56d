"""What the `inferwire` command says, and with which exit code."""

from __future__ import annotations

import inspect
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from inferwire_cli.commands import app, run_command
from inferwire_cli.extras import MissingExtraError, needs_extra
from inferwire_server.settings import Settings

COMMANDS = {name: app[name].default_command for name in app if not name.startswith("-")}
"""The functions of all commands, by their names."""


def inferwire(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would."""
    command = [sys.executable, "-m", "inferwire_cli", *words]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def test_version_is_the_installed_one() -> None:
    done = inferwire("--version")
    assert (done.returncode, done.stdout.strip()) == (0, version("inferwire"))


def test_help_names_the_commands() -> None:
    done = inferwire("--help")
    assert done.returncode == 0
    assert "serve        Serve models over gRPC and REST." in done.stdout
    assert "demo         Start a server" in done.stdout
    assert inferwire().stdout == done.stdout


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def buffering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Python keep what is printed until it is flushed, at its own end too, or nothing of it."""
    monkeypatch.setenv("PYTHONUNBUFFERED", request.param)


@pytest.mark.usefixtures("buffering")
@pytest.mark.parametrize("word", ["", "--help", "--version", "models --help", "serve --help"])
def test_help_that_nobody_reads_is_no_error_and_a_full_disk_is_a_sentence(word: str) -> None:
    command = [sys.executable, "-m", "inferwire_cli", *word.split()]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, "inferwire: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("command", ["models", "serve"])
def test_help_ends_in_the_narrowest_terminal(command: str, tmp_path: Path) -> None:
    with (tmp_path / "help").open("w+b") as printed:
        line = [sys.executable, "-m", "inferwire_cli", command, "--help"]
        environment = {**os.environ, "COLUMNS": "2"}
        assert subprocess.run(line, stdout=printed, env=environment, check=False, timeout=60).returncode == 0


@pytest.mark.usefixtures("buffering")
def test_misuse_whose_sentence_nobody_reads_is_misuse() -> None:
    command = [sys.executable, "-m", "inferwire_cli", "infer", "digits_mlp", "-i", "0", "--save", "no.npy"]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(command, stderr=full, check=False, timeout=60).returncode == 2


LOADED = """
import sys
from inferwire_cli.commands import run_command
assert run_command({words!r}) == 0
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{"inferwire", "inferwire_server"}}), file=sys.stderr)
"""


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "serve"])
def test_neither_side_is_imported_before_a_command_is_called(command: str) -> None:
    code = LOADED.format(words=[command, "--help"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "[]\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_the_terminal_and_breaks_no_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COLUMNS", "80")
        assert run_command([command, "--help"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    assert "[default: False]" not in "".join(printed)
    described = inspect.getdoc(COMMANDS[command]) or ""
    examples = [line for line in described.splitlines() if line.startswith("inferwire ")]
    assert set(examples) <= {line.strip() for line in printed}
    assert examples or command == "demo"


@pytest.mark.parametrize("examples", [name for name in COMMANDS if name != "demo"])
def test_examples_are_commands_that_can_be_parsed(examples: str) -> None:
    for line in (inspect.getdoc(COMMANDS[examples]) or "").splitlines():
        if line.startswith("inferwire "):
            command, _, _ = app.parse_args(shlex.split(line)[1:], exit_on_error=False, print_error=False)
            assert command is COMMANDS[examples]


def test_a_flag_s_environment_variable_is_read_as_its_help_says(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"HTTP_PORT": "80", "WATCH": "1", "PROPERTY": "A=1 B=2", "EXTENSION": "/a.so:/b.so", "GRACE_S": "7"}
    for name, value in variables.items():
        monkeypatch.setenv(f"INFERWIRE_{name}", value)
    _, bound, _ = app.parse_args(["serve", "--grace-s", "9"], exit_on_error=False, print_error=False)
    assert bound.arguments["settings"] == Settings(
        http_port=80,
        watch=True,
        properties=("A=1", "B=2"),
        extensions=(Path("/a.so"), Path("/b.so")),
        grace_s=9.0,
    )


@pytest.mark.parametrize("width", [80, 120])
def test_serve_help_fits_the_terminal(width: int) -> None:
    done = inferwire("serve", "--help", COLUMNS=str(width))
    assert done.returncode == 0
    assert "--model-repository" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= width


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serv",), 'Did you mean "serve"?'),
        (("serve", "--port", "8001"), "Unknown option: --port. Did you mean --grpc-port or --http-port?"),
        (("serve", "--model_path=models/m"), "Unknown option: --model_path. Did you mean --model NAME=FOLDER?"),
        (("serve", "--model-name", "m"), "Unknown option: --model-name. Did you mean --model NAME=FOLDER?"),
        (("bench", "--port", "8001"), "Unknown option: --port. Did you mean --plot?"),
        (("serve", "--http-port", "77777"), "--http-port"),
        (("serve", "--no-such-flag"), "--no-such-flag"),
        (("serve", "--watch=on"), "Invalid value for --watch: expected true or false, got 'on'"),
        (("serve", "models"), "unexpected 'models'; models are named by a flag: --model-repository models"),
        (("infer", "m", "a.png"), "unexpected 'a.png'; inputs are named by a flag: -i a.png"),
        (("bench", "m", "a.png"), "unexpected 'a.png'; inputs are named by a flag: -i a.png"),
        (("models", "a", "b c"), "unexpected 'a', 'b c'"),
    ],
)
def test_misuse_is_explained_and_gives_2(words: tuple[str, ...], said: str) -> None:
    done = inferwire(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "helping"),
    [
        (("serv",), "inferwire --help"),
        (("infer",), "inferwire infer --help"),
        (("models", "a"), "inferwire models --help"),
    ],
)
def test_misuse_names_the_help_to_read(
    words: tuple[str, ...], helping: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(words) == 2
    assert f"See `{helping}`." in capsys.readouterr().err


@pytest.mark.parametrize("package", ["cyclopts", "numpy", "PIL"])
def test_an_interrupt_while_a_command_is_loaded_ends_it_without_a_word(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text("import signal; signal.raise_signal(signal.SIGINT); raise RuntimeError")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = inferwire("infer", "m", PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (130, "")


def test_so_does_one_while_the_interpreter_ends() -> None:
    code = "import atexit, signal, sys; atexit.register(signal.raise_signal, signal.SIGINT)"
    code += "; from inferwire_cli.__main__ import main; sys.exit(main(['models', '--address', '127.0.0.1:9']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.startswith("inferwire: no inferwire server answers at 127.0.0.1:9")
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_environment_variable_is_named() -> None:
    done = inferwire("serve", INFERWIRE_HTTP_PORT="eight")
    assert done.returncode == 2
    assert "INFERWIRE_HTTP_PORT" in done.stderr
    done = inferwire("serve", INFERWIRE_WATCH="on")
    assert done.returncode == 2
    assert "Invalid value for INFERWIRE_WATCH: expected true or false, got 'on'" in done.stderr


def test_somebody_elses_missing_package_names_the_extra() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"'no_such_package'.*pip install '\.\[server\]'"),
        needs_extra("server", "inferwire serve"),
    ):
        raise ModuleNotFoundError("No module named 'no_such_package.part'", name="no_such_package.part")


def test_what_pythons_own_library_lacks_on_a_system_is_not_to_be_installed() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"inferwire serve does not run on this system .*no module 'resource'"),
        needs_extra("server", "inferwire serve"),
    ):
        raise ModuleNotFoundError("No module named 'resource'", name="resource")


def test_a_missing_module_of_our_own_is_a_bug_and_stays_one() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("server", "inferwire serve"):
        raise ModuleNotFoundError("No module named 'inferwire_server.gone'", name="inferwire_server.gone")
