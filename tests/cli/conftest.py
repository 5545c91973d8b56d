"""A server of the example models, and the command as a person runs it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

import pytest

from inferwire_cli.__main__ import main
from inferwire_cli.server_process import ServerProcess, running_server

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"

ENCODED = """
slots = 5
labels = "labels.txt"
[preprocessing.image]
encoded = true
resize = "bicubic_pillow"
model_layout = "NCHW"
mean = 127
scale = 128
"""


UNUSUAL = "zählt [bold] 0 :100: bis 9%"
"""A name that a folder may have, with characters that mean something to rich and in URLs."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The example models, one that takes encoded pictures, one of an unusual name, and one that does not load."""
    repository = tmp_path_factory.mktemp("cli") / "models"
    copytree(DEPLOY / "models", repository)
    copytree(DEPLOY / "models/efficientnet_lite0", repository / "files")
    (repository / "files/inferwire.toml").write_text(ENCODED)
    copytree(DEPLOY / "models/digits_mlp", repository / UNUSUAL)
    (repository / "broken/1").mkdir(parents=True)
    (repository / "broken/1/model.onnx").write_text("no model")
    with running_server(repository, "--allow-model-control") as running:
        yield running


@pytest.fixture(autouse=True)
def handler_of_interrupts() -> Generator[None]:
    """Restore the handler of Ctrl-C, which a command sets for its process, here that of the tests."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True)
class Done:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def unusual() -> str:
    """A model whose name has characters in it that mean something elsewhere."""
    return UNUSUAL


@pytest.fixture
def run(
    server: ServerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """Run the command against the server, in this process; keyword arguments are environment variables."""
    monkeypatch.setenv("INFERWIRE_ADDRESS", server.grpc_address)
    monkeypatch.setenv("INFERWIRE_HTTP_ADDRESS", server.http_address)
    # The output is not cut to a terminal's width, whatever shell runs these tests.
    monkeypatch.delenv("COLUMNS", raising=False)

    def inferwire(*words: str | Path, **environment: str) -> Done:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return inferwire
