"""What is of the wrong kind is refused where it is given, with openvino's kind of error, and nothing is changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mirror.conftest import Runtime

import inferwire


@pytest.fixture
def model(runtime: Runtime) -> Any:
    return runtime.core.read_model(runtime.models["relu"])


@pytest.mark.parametrize("layout", ["NC", 5, None])
def test_only_layouts_are_taken_for_one(runtime: Runtime, model: Any, layout: Any) -> None:
    node: Any = model.parameters[0]
    helpers = runtime.ov.layout_helpers
    with pytest.raises(TypeError, match="incompatible function arguments"):
        node.layout = layout
    with pytest.raises(TypeError, match="incompatible function arguments"):
        node.set_layout(layout)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        helpers.set_layout(model.input(), layout)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        helpers.has_batch(layout)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        helpers.width_idx(layout)
    assert node.layout.empty
    helpers.set_layout(model.input(), runtime.ov.Layout("NC"))
    assert str(node.layout) == "[N,C]"
    assert helpers.has_batch(node.get_layout())


def test_only_text_is_taken_for_a_name(model: Any) -> None:
    node = model.parameters[0]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        node.friendly_name = 5
    with pytest.raises(TypeError, match="incompatible function arguments"):
        node.set_friendly_name(5)
    node.set_friendly_name(name="other")
    assert node.friendly_name == "other"


def test_an_empty_path_is_none(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runtime.models["relu"].parent)
    with pytest.raises(RuntimeError, match='Could not open the file: ""'):
        runtime.core.read_model("")
    with pytest.raises(RuntimeError, match='Could not open the file: ""'):
        runtime.core.compile_model("", "CPU")


def test_what_are_no_weights_is_named_and_not_the_model(runtime: Runtime) -> None:
    weights: Any = 5
    with pytest.raises(RuntimeError, match="Path: '5' does not exist"):
        runtime.core.read_model(runtime.models["relu"], weights)


@pytest.mark.parametrize("name", [5, None, ["CPU"]])
def test_only_text_names_a_device_or_a_property(runtime: Runtime, name: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        runtime.core.get_versions(name)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        runtime.compile("relu").get_property(name)


def test_a_batch_is_one_of_an_input_that_is_there(runtime: Runtime) -> None:
    request = runtime.compile("relu").create_infer_request()
    with pytest.raises(RuntimeError, match=r"set_tensors error\. Input port for tensor name zz was not found\."):
        request.set_tensors("zz", [runtime.ov.Tensor(np.ones((1, 3), np.float32))])


def test_what_does_not_fit_a_value_is_refused_as_openvino_does(runtime: Runtime) -> None:
    ov = runtime.ov
    with pytest.raises(RuntimeError, match="Accessing out-of-range dimension"):
        ov.PartialShape([1, 2])[9] = 1
    with pytest.raises(RuntimeError, match="Bad "):
        ov.OVAny(5).aslist(int)
    with pytest.raises(RuntimeError, match="Unable to cast"):
        ov.TensorVector([1])


def test_one_output_of_two_is_asked_for_by_name(runtime: Runtime) -> None:
    with pytest.raises(RuntimeError, match="exactly one result"):
        runtime.core.read_model(runtime.models["two"]).output()
    with pytest.raises(RuntimeError, match="exactly one parameter"):
        runtime.core.read_model(runtime.models["two"]).input()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [(("mutli",), "'mutli' is not found; the server has no models"), (("mutli", "x"), "; the server has")],
)
def test_a_model_that_is_not_served_says_which_are(server_address: str, wanted: tuple[str, ...], said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        inferwire.Core(server_address).served_model(*wanted)


@pytest.mark.parametrize("name", ["garbage.xml", "garbage.onnx", "garbage.tflite"])
def test_a_model_that_cannot_be_read_is_named_as_its_user_does(runtime: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"nothing")
    with pytest.raises(RuntimeError, match=re.escape(f'Unable to read the model: "{path}" Please check that model')):
        runtime.core.read_model(path)


def test_a_model_in_memory_that_cannot_be_read_has_no_name(runtime: Any) -> None:
    for content in (b"nothing", b"<net/>"):
        with pytest.raises(
            RuntimeError, match=r"Unable to read the model\. Please check if the model format is"
        ) as said:
            runtime.core.read_model(content)
        assert "model." not in str(said.value).replace("the model. Please", "")
