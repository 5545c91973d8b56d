"""A repository as Triton's users have it is served as its files say, to Triton's own clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import numpy as np
import openvino
import openvino.opset13 as ops
import pytest
import tritonclient.grpc
import tritonclient.http
from tests.openvino_backend.small_models import parameter, saved
from tritonclient.utils import InferenceServerException

from inferwire_cli.server_process import ServerProcess, running_server
from inferwire_proto.element_types import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "deploy/models/digits_mlp"

CONFIGS = {
    "digits": """
        name: "digits"
        backend: "openvino"
        max_batch_size: 16
        input [{ name: "pixels" data_type: TYPE_FP32 dims: [ 64 ] }]
        output [{ name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] label_filename: "labels.txt" }]
        dynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 500 }
        instance_group [{ count: 2 kind: KIND_CPU }]
        optimization { graph { level: 1 } }
        parameters { key: "NUM_STREAMS" value { string_value: "1" } }
        parameters { key: "ENABLE_BATCH_PADDING" value { string_value: "YES" } }
    """,
    "one_row": """
        platform: "openvino"
        max_batch_size: 8
        input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
    """,
    "pictures": """
        max_batch_size: 8
        input { name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 2, 2 ] }
        output { name: "y" data_type: TYPE_FP32 dims: [ 3, 2, 2 ] }
    """,
    "narrowed": 'input { name: "x" data_type: TYPE_FP32 dims: [ 2, 4 ] }',
    "other_types": 'input { name: "x" data_type: TYPE_INT8 dims: [ -1, 4 ] }',
    "onnx": 'platform: "onnxruntime_onnx" input { name: "x" data_type: TYPE_FP32 dims: [ 3, 4, 5 ] }',
    "tensorflow": 'platform: "tensorflow_savedmodel" default_model_filename: "model.savedmodel"',
    "scripted": 'backend: "python"',
    "steps": 'platform: "ensemble" ensemble_scheduling { step { model_name: "digits" model_version: -1 } }',
    "misspelt": 'backend: "openvino"\nmax_batch: 8\n',
}


def lay_out(root: Path) -> None:
    copytree(DIGITS, root / "digits")
    (root / "digits/inferwire.toml").unlink()
    shapes = {
        "one_row": (1, 4),
        "pictures": (1, 3, 2, 2),
        "narrowed": (-1, -1),
        "other_types": (-1, 4),
        "misspelt": (-1, 4),
    }
    for name, shape in shapes.items():
        (root / name / "1").mkdir(parents=True)
        x = parameter(BY_NAME["f32"], shape)
        saved(root / name / "1", [("y", ops.relu(x))], [x])
    for name in ("onnx", "tensorflow", "scripted", "steps"):
        (root / name / "1").mkdir(parents=True)
    copy(ROOT / "tests/data/sigmoid.onnx", root / "onnx/1/model.onnx")
    copytree(ROOT / "tests/data/tanh_saved_model", root / "tensorflow/1/model.savedmodel")
    for name, text in CONFIGS.items():
        (root / name / "config.pbtxt").write_text(text)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("triton")
    lay_out(root)
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[ServerProcess]:
    with running_server(root, "--allow-model-control") as running:
        yield running


@pytest.fixture(scope="module")
def http(server: ServerProcess) -> Iterator[Any]:
    with tritonclient.http.InferenceServerClient(server.http_address) as client:
        yield client


@pytest.fixture(scope="module")
def rpc(server: ServerProcess) -> Iterator[Any]:
    with tritonclient.grpc.InferenceServerClient(server.grpc_address) as client:
        yield client


def given(kind: Any, name: str, array: Any) -> Any:
    tensor = kind.InferInput(name, array.shape, "FP32")
    tensor.set_data_from_numpy(array)
    return tensor


def test_its_configuration_is_what_the_files_say(http: Any, rpc: Any) -> None:
    for found in (http.get_model_config("digits"), rpc.get_model_config("digits", as_json=True)["config"]):
        assert int(found["max_batch_size"]) == 16
        assert [int(length) for length in found["input"][0]["dims"]] == [64]
        assert found["output"][0]["label_filename"] == "labels.txt"
        assert [int(size) for size in found["dynamic_batching"]["preferred_batch_size"]] == [8]
        assert int(found["dynamic_batching"]["max_queue_delay_microseconds"]) == 500
        (group,) = found["instance_group"]
        assert (group["kind"], int(group["count"])) == ("KIND_CPU", 2)
    assert http.get_model_config("pictures")["input"][0]["format"] == "FORMAT_NCHW"
    assert http.get_model_metadata("narrowed")["inputs"][0]["shape"] == [2, 4]
    assert http.get_model_metadata("one_row")["inputs"][0]["shape"] == [-1, 4]


def test_it_answers_as_openvino_does(http: Any, rpc: Any) -> None:
    pixels = np.random.default_rng(1).random((5, 64)).astype(np.float32)
    local = openvino.Core().compile_model(next(DIGITS.glob("1/*.xml")), "CPU")
    for kind, client in ((tritonclient.http, http), (tritonclient.grpc, rpc)):
        result = client.infer("digits", [given(kind, "pixels", pixels)])
        np.testing.assert_allclose(result.as_numpy("probabilities"), local(pixels)[0], rtol=1e-4, atol=1e-5)
    for name, shape, file in (("onnx", (3, 4, 5), "sigmoid.onnx"), ("tensorflow", (2, 3), "tanh_saved_model")):
        x = np.random.default_rng(2).random(shape).astype(np.float32)
        result = http.infer(name, [given(tritonclient.http, "x", x)])
        local = openvino.Core().compile_model(ROOT / "tests/data" / file, "CPU")
        np.testing.assert_allclose(result.as_numpy("y"), local(x)[0], rtol=1e-2)
    rows = np.ones((3, 4), np.float32)
    assert rpc.infer("one_row", [given(tritonclient.grpc, "x", rows)]).as_numpy("y").shape == (3, 4)


def test_classes_have_the_labels_of_the_file(http: Any) -> None:
    asked = tritonclient.http.InferRequestedOutput("probabilities", class_count=2)
    pixels = given(tritonclient.http, "pixels", np.zeros((1, 64), np.float32))
    classes = http.infer("digits", [pixels], outputs=[asked]).as_numpy("probabilities")
    labels = (DIGITS / "labels.txt").read_text().splitlines()
    for text in classes.ravel():
        _, index, label = text.decode().split(":")
        assert label == labels[int(index)]


def test_what_cannot_be_served_says_why(http: Any) -> None:
    reasons = {model["name"]: model.get("reason", "") for model in http.get_model_repository_index()}
    served = {"digits", "one_row", "pictures", "narrowed", "onnx", "tensorflow"}
    assert {name for name, reason in reasons.items() if not reason} == served
    assert (
        "other_types/config.pbtxt: input 'x' is said to be of i8, and the model's is of f32" in reasons["other_types"]
    )
    assert "scripted/config.pbtxt: backend is 'python', expected one of openvino, " in reasons["scripted"]
    assert "ensemble_scheduling is set: ensembles are not offered" in reasons["steps"]
    assert (
        'misspelt/config.pbtxt cannot be read: line 2, column 1: Message type "inference.ModelConfig" has no field '
        'named "max_batch"'
    ) in reasons["misspelt"]


def test_a_changed_file_is_read_by_the_next_load(root: Path, http: Any) -> None:
    file = root / "misspelt/config.pbtxt"
    with pytest.raises(InferenceServerException, match="line 2, column 1"):
        http.load_model("misspelt")
    file.write_text("max_batch_size: 8")
    http.load_model("misspelt")
    assert http.get_model_config("misspelt")["max_batch_size"] == 8
    file.write_text("max_batch_size: 4")
    http.load_model("misspelt")
    assert http.get_model_config("misspelt")["max_batch_size"] == 4


def test_a_configuration_that_was_read_loads_it_again(http: Any) -> None:
    config = http.get_model_config("digits")
    config["instance_group"][0]["count"] = 3
    http.load_model("digits", config=json.dumps(config))
    now = http.get_model_config("digits")
    assert (now["instance_group"][0]["count"], now["max_batch_size"]) == (3, 16)
    assert now["output"][0]["label_filename"] == "labels.txt"
