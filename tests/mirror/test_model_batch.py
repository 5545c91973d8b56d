"""The batch that layouts name is read and set as openvino does it."""

from __future__ import annotations

import re
from typing import Any

import pytest

GET, SET = "get_batch", "set_batch"


@pytest.fixture
def two(runtime: Any) -> Any:
    return runtime.core.read_model(runtime.models["two"])


@pytest.fixture
def dynamic(runtime: Any) -> Any:
    return runtime.core.read_model(runtime.models["dynamic"])


def lay_out(runtime: Any, model: Any, *layouts: str) -> Any:
    for node, layout in zip(model.get_parameters(), layouts, strict=True):
        node.set_layout(runtime.ov.Layout(layout))
    return model


def shapes_of(model: Any) -> list[str]:
    return [str(port.partial_shape) for port in (*model.inputs, *model.outputs)]


@pytest.mark.parametrize(
    ("layout", "batch", "text"),
    [("NC", 4, "[4,3]"), ("N...", -1, "[?,3]"), ("...CN", 5, "[?,5]"), ("N?", True, "[1,3]")],
)
def test_a_batch_is_set_by_its_layout(runtime: Any, dynamic: Any, layout: str, batch: int, text: str) -> None:
    lay_out(runtime, dynamic, layout)
    assert runtime.ov.set_batch(dynamic, batch) is None
    assert shapes_of(dynamic) == [text, text]
    assert runtime.ov.get_batch(dynamic) == batch
    assert runtime.ov.get_batch(model=dynamic.clone()) == batch


def test_a_batch_that_is_not_known_in_full(runtime: Any, dynamic: Any) -> None:
    ov = runtime.ov
    lay_out(runtime, dynamic, "NC")
    assert str(ov.get_batch(dynamic)) == "?"
    ov.set_batch(dynamic, ov.Dimension(1, 5))
    assert (str(ov.get_batch(dynamic)), shapes_of(dynamic)[0]) == ("1..5", "[1..5,3]")
    ov.set_batch(dynamic, dimension=ov.Dimension(2))
    ov.set_batch(model=dynamic, batch_size=3)
    assert shapes_of(dynamic)[0] == "[3,3]"
    ov.set_batch(dynamic)
    assert shapes_of(dynamic)[0] == "[?,3]"


def test_all_inputs_with_a_batch_get_it(runtime: Any, two: Any) -> None:
    lay_out(runtime, two, "NC", "NC")
    runtime.ov.set_batch(two, 4)
    assert shapes_of(two) == ["[4,3]"] * 4
    compiled = runtime.core.compile_model(two, "CPU")
    assert list(compiled.output(0).shape) == [4, 3]


def test_an_input_without_a_batch_is_left_alone(runtime: Any, two: Any) -> None:
    lay_out(runtime, two, "NC", "...")
    two.reshape({"a": [-1, 3]})
    runtime.ov.set_batch(two, 2)
    assert shapes_of(two)[:2] == ["[2,3]", "[1,3]"]


def test_inputs_agree_on_what_both_may_be(runtime: Any, two: Any) -> None:
    ov = runtime.ov
    lay_out(runtime, two, "NC", "NC")
    two.reshape({"a": [ov.Dimension(1, 4), 3], "b": [ov.Dimension(2, -1), 3]})
    assert str(ov.get_batch(two)) == "2..4"


@pytest.mark.parametrize("call", [GET, SET])
def test_a_batch_that_no_layout_names(runtime: Any, dynamic: Any, call: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        getattr(runtime.ov, call)(dynamic)
    listed = "0: { name='data', shape=[?,3], layout=[...], no batch specified }\n---\nPlease use 'set_layout' API"
    assert "batch is not set in any layout for any input. Available inputs:\n" in str(caught.value)
    assert listed in str(caught.value)


def test_an_input_is_called_by_its_tensors_name(runtime: Any, dynamic: Any) -> None:
    dynamic.input().node.friendly_name = "renamed"
    with pytest.raises(RuntimeError, match=r"0: \{ name='data', shape"):
        runtime.ov.get_batch(dynamic)


@pytest.mark.parametrize(
    ("model", "layouts"),
    [
        ("relu", ["N", "NCHW", "N...CHW", "**SCALAR**", "?"]),
        ("scalar", ["N", "N...", "...C"]),
        ("text", ["NC", "N...C", "...NC"]),
    ],
)
def test_a_layout_has_the_dimensions_of_its_port(runtime: Any, model: str, layouts: list[str]) -> None:
    ov, read = runtime.ov, runtime.core.read_model(runtime.models[model])
    port, result = read.input(), read.get_results()[0]
    shape = re.escape(str(port.partial_shape))
    name = re.escape(f"data[0]:{port.element_type.to_string()}")
    for layout in map(ov.Layout, layouts):
        text = f"opset1::Parameter {name}{shape}: layout {re.escape(str(layout))} is not compatible with shape {shape}"
        with pytest.raises(RuntimeError, match=f"Can't set layout for Parameter/Result {text}"):
            ov.layout_helpers.set_layout(port, layout)
        with pytest.raises(RuntimeError, match=r"Can't set layout for Parameter/Result opset1::Result "):
            result.layout = layout
    for text in {"relu": ["NC", "...", "N...", "N...C"], "scalar": ["**SCALAR**", "..."]}.get(model, ["N", "...?"]):
        port.node.set_layout(ov.Layout(text))
        assert port.node.layout == ov.Layout(text)


def test_a_shape_has_the_dimensions_of_its_layout(runtime: Any, dynamic: Any) -> None:
    lay_out(runtime, dynamic, "NC")
    text = "Can't set partial shape [1,2,3] for Parameter opset1::Parameter data () -> (f32[?,3]) with layout [N,C]."
    with pytest.raises(RuntimeError, match=re.escape(text)):
        dynamic.reshape([1, 2, 3])
    assert shapes_of(dynamic) == ["[?,3]", "[?,3]"]


@pytest.mark.parametrize("call", [GET, SET])
def test_batches_that_differ(runtime: Any, two: Any, call: str) -> None:
    two.reshape({"a": [1, 3], "b": [3, 1]})
    lay_out(runtime, two, "NC", "NC")
    with pytest.raises(RuntimeError, match="size fails due to conflicting batch values for inputs:") as caught:
        getattr(runtime.ov, call)(two)
    assert "\n1: { name='b', shape=[3,1], layout=[N,C], batch=3 }\n" in str(caught.value)


def test_a_batch_that_the_model_cannot_take(runtime: Any, two: Any) -> None:
    two.reshape({"a": [1, 3], "b": [1, 3]})
    lay_out(runtime, two, "...", "CN")
    with pytest.raises(RuntimeError, match=r"Failed to set batch size to 2\. Possible reasons are:\n") as caught:
        runtime.ov.set_batch(two, 2)
    assert "Original error message is: " in str(caught.value)
    assert shapes_of(two)[:2] == ["[1,3]", "[1,3]"]


@pytest.mark.parametrize("batch", ["3", 1.5, None, [1]])
def test_what_is_no_batch(runtime: Any, dynamic: Any, batch: Any) -> None:
    with pytest.raises(TypeError, match=r"set_batch\(\): incompatible function arguments"):
        runtime.ov.set_batch(dynamic, batch)
    with pytest.raises(TypeError, match=r"set_batch\(\): incompatible function arguments"):
        runtime.ov.set_batch(dynamic, dimension=3)


@pytest.mark.parametrize("call", [GET, SET])
def test_what_is_no_model(runtime: Any, call: str) -> None:
    with pytest.raises(TypeError, match="Incompatible `model` argument"):
        getattr(runtime.ov, call)(None)
