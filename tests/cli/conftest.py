"""A server of the example models, and the command as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree

import pytest

from inferwire_cli.server_process import ServerProcess, running_server

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"

Completed = subprocess.CompletedProcess[str]
Run = Callable[..., Completed]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The example models, and one that does not load."""
    repository = tmp_path_factory.mktemp("cli") / "models"
    copytree(DEPLOY / "models", repository)
    (repository / "broken/1").mkdir(parents=True)
    (repository / "broken/1/model.onnx").write_text("no model")
    with running_server(repository, "--allow-model-control") as running:
        yield running


@pytest.fixture
def run(server: ServerProcess) -> Run:
    """Run the command against the server; keyword arguments are environment variables."""
    own = {"INFERWIRE_ADDRESS": server.grpc_address, "INFERWIRE_HTTP_ADDRESS": server.http_address}

    def inferwire(*words: str | Path, **environment: str) -> Completed:
        command = [sys.executable, "-m", "inferwire_cli", *map(str, words)]
        variables = {**os.environ, **own, **environment}
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)

    return inferwire
