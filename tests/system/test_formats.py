"""Models in each format that OpenVINO reads, served and uploaded: all give what openvino gives in process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import numpy as np
import openvino
import pytest

import inferwire as ov
from inferwire_cli.server_process import running_server

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
F32 = {"INFERENCE_PRECISION_HINT": "f32"}
WEIGHTS = {".xml": ".bin", ".pdmodel": ".pdiparams"}
FORMATS = {
    "ir": ROOT / "deploy/models/digits_mlp/1/digits_mlp.xml",
    "onnx": DATA / "sigmoid.onnx",
    "tflite": DATA / "tanh.tflite",
    "paddle": DATA / "tanh.pdmodel",
    "graph_def": DATA / "tanh.pb",
    "graph_def_text": DATA / "tanh.pbtxt",
    "saved_model": DATA / "tanh_saved_model",
}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ov.Core]:
    """A server with one model of each format that takes uploads too."""
    repository = tmp_path_factory.mktemp("formats")
    for name, path in FORMATS.items():
        lay_out(path, repository / name / "1")
    flags = ("--allow-uploads", "--device", "CPU", "--property", "INFERENCE_PRECISION_HINT=f32")
    with running_server(repository, *flags) as server, ov.Core(server.grpc_address) as core:
        yield core


def lay_out(path: Path, version: Path) -> None:
    if path.is_dir():
        copytree(path, version)
        return
    version.mkdir(parents=True)
    copy(path, version)
    if path.suffix in WEIGHTS:
        copy(path.with_suffix(WEIGHTS[path.suffix]), version)


def assert_alike(compiled: Any, local: Any) -> None:
    """Compare ports by their names and shapes, and what an inference gives."""
    for ours, theirs in zip((*compiled.inputs, *compiled.outputs), (*local.inputs, *local.outputs), strict=True):
        assert (ours.names, str(ours.partial_shape)) == (theirs.names, str(theirs.partial_shape))
    shape = [dimension.get_min_length() or 2 for dimension in local.input().partial_shape]
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(compiled(data)[0], local(data)[0], rtol=1e-6, atol=1e-7)


def without_count(name: str) -> str:
    """Cut off the number that OpenVINO gives a model without a name: how many the process has seen."""
    return name.rstrip("0123456789")


@pytest.mark.parametrize("name", FORMATS)
def test_a_repository_serves_every_format(core: ov.Core, name: str) -> None:
    assert_alike(core.served_model(name), openvino.Core().compile_model(FORMATS[name], "CPU", F32))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_compiled_from_a_path(core: ov.Core, name: str) -> None:
    local = openvino.Core()
    ours, theirs = (each.read_model(FORMATS[name]).friendly_name for each in (core, local))
    assert without_count(ours) == without_count(theirs)
    assert_alike(core.compile_model(FORMATS[name], "CPU", F32), local.compile_model(FORMATS[name], "CPU", F32))


@pytest.mark.parametrize("name", ["ir", "onnx", "paddle"])
def test_formats_that_openvino_reads_from_memory(core: ov.Core, name: str) -> None:
    path, local = FORMATS[name], openvino.Core()
    weights = path.with_suffix(WEIGHTS[path.suffix]).read_bytes() if path.suffix in WEIGHTS else b""
    ours, theirs = core.read_model(path.read_bytes(), weights), local.read_model(path.read_bytes(), weights)
    assert_alike(core.compile_model(ours, "CPU", F32), local.compile_model(theirs, "CPU", F32))


def test_weights_are_read_from_a_file_of_any_name(core: ov.Core, tmp_path: Path) -> None:
    weights = copy(FORMATS["paddle"].with_suffix(".pdiparams"), tmp_path / "weights")
    local = openvino.Core()
    ours, theirs = core.read_model(FORMATS["paddle"], weights), local.read_model(FORMATS["paddle"], weights)
    assert_alike(core.compile_model(ours, "CPU", F32), local.compile_model(theirs, "CPU", F32))


def test_tensorflow_lite_from_memory_is_refused(core: ov.Core) -> None:
    content = FORMATS["tflite"].read_bytes()
    for read in (openvino.Core().read_model, core.read_model):
        with pytest.raises(RuntimeError, match="Unable to read the model"):
            read(content)


def test_a_saved_models_file_alone_is_no_model(core: ov.Core) -> None:
    path = FORMATS["saved_model"] / "saved_model.pb"
    for read in (openvino.Core().read_model, core.read_model):
        with pytest.raises(RuntimeError, match="Unable to read the model"):
            read(path)


def test_a_folder_that_is_no_saved_model_is_refused(core: ov.Core, tmp_path: Path) -> None:
    for read in (openvino.Core().read_model, core.read_model):
        with pytest.raises(RuntimeError, match=r'Could not open the file: "\S+saved_model.pb"'):
            read(tmp_path)


def test_the_folder_of_one_saved_model_is_a_repository() -> None:
    with running_server(
        FORMATS["saved_model"], "--device", "CPU", "--property", "INFERENCE_PRECISION_HINT=f32"
    ) as server:
        local = openvino.Core().compile_model(FORMATS["saved_model"], "CPU", F32)
        assert_alike(ov.Core(server.grpc_address).served_model("tanh_saved_model"), local)
