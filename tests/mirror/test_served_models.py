"""What a program learns of a server's repository, which openvino does not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, running_server

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy/models"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    repository = copytree(EXAMPLES / "digits_mlp", tmp_path_factory.mktemp("served") / "digits_mlp").parent
    broken = repository / "broken" / "1"
    broken.mkdir(parents=True)
    (broken / "model.onnx").write_bytes(b"nonsense")
    with running_server(repository, "--allow-uploads") as running:
        yield running


def test_what_is_served_is_listed_with_why_it_is_not(server: ServerProcess) -> None:
    with ov.Core(server.grpc_address) as core:
        broken, digits = core.served_models()
        assert (broken.name, broken.version, broken.state) == ("broken", "1", "failed")
        assert broken.reason
        assert digits == ov.ModelStatus("digits_mlp", "1", "ready", "")
        assert core.served_model(digits.name, digits.version).inputs


def test_a_served_models_classes_have_the_operators_names(server: ServerProcess) -> None:
    with ov.Core(server.grpc_address) as core:
        served = core.served_model("digits_mlp")
        assert served.labels == tuple((EXAMPLES / "digits_mlp/labels.txt").read_text().splitlines())
        assert ov.CompiledModel(served).labels is served.labels
        assert core.compile_model(EXAMPLES / "digits_mlp/1/digits_mlp.xml", "CPU").labels == ()
