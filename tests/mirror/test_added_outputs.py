"""A model gives what it has inside, by `Model.add_outputs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.mirror.conftest import make_model

UNCHANGED = {"INFERENCE_PRECISION_HINT": "f32"}
NAMELESS = Path(__file__).parent.parent / "data/tanh.tflite"
DATA = np.array([[-1.0, 0.5, 2.0]], np.float32)


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An IR that doubles, adds one, splits off the first of three, and gives what is above zero of the others."""
    data = op.parameter([-1, 3], np.float32, name="data")
    data.output(0).get_tensor().set_names({"data"})
    doubled = op.multiply(data, op.constant(np.float32(2)), name="twice")
    doubled.output(0).get_tensor().set_names({"doubled"})
    more = op.add(doubled, op.constant(np.float32(1)), name="more")
    parts = op.variadic_split(more, op.constant(np.int64(1)), op.constant(np.array([1, 2], np.int64)), name="parts")
    out = op.relu(parts.output(1), name="positive")
    out.output(0).get_tensor().set_names({"out"})
    path = tmp_path_factory.mktemp("layered") / "layered.xml"
    openvino.save_model(make_model([op.result(out)], [data], "layered"), path, compress_to_fp16=False)
    return path


@pytest.fixture
def model(runtime: Any, layered: Path) -> Any:
    return runtime.core.read_model(layered)


def results_of(runtime: Any, model: Any) -> list[list[list[float]]]:
    results = runtime.core.compile_model(model, "CPU", UNCHANGED)(DATA)
    return [value.tolist() for value in results.values()]


def test_outputs_of_inner_nodes_come_after_the_models_own(runtime: Any, model: Any) -> None:
    added = model.add_outputs("doubled")
    added += model.add_outputs([("more", 0), ("parts", 0)])
    assert [type(port) for port in added] == [runtime.ov.Output] * 3
    assert model.outputs[1:] == added
    assert added[0].names == {"doubled"}
    assert [str(port.partial_shape) for port in model.outputs] == ["[?,2]", "[?,3]", "[?,3]", "[?,1]"]
    assert results_of(runtime, model) == [[[2.0, 5.0]], [[-2.0, 1.0, 4.0]], [[-1.0, 2.0, 5.0]], [[-1.0]]]


def test_nodes_that_were_looked_at_give_theirs(runtime: Any, model: Any) -> None:
    parts = next(node for node in model.get_ordered_ops() if node.get_friendly_name() == "parts")
    first = model.add_outputs(parts.output(0))
    assert model.add_outputs([parts.output(0), *first]) == first * 2
    assert len(model.outputs) == 2
    assert results_of(runtime, model)[1:] == [[[-1.0]]]


def test_what_a_model_gives_or_takes_is_named_like_the_rest(runtime: Any, model: Any) -> None:
    (own,) = model.outputs
    assert model.add_outputs(["out", own, ("positive", 0), (own.node.friendly_name, 0)]) == [own] * 4
    assert model.outputs == [own]
    taken = model.add_outputs([model.input(), "data", ("data", 0)])
    assert taken == [model.outputs[1]] * 3
    assert taken[0].names == {"data"}
    assert results_of(runtime, model)[1:] == [DATA.tolist()]


def test_a_models_own_output_may_have_no_name_that_stays(runtime: Any) -> None:
    model = runtime.core.read_model(NAMELESS)
    (own,) = model.outputs
    assert model.add_outputs([own, (own.node.friendly_name, 0)]) == [own] * 2
    assert len(model.outputs) == 1


def test_outputs_and_other_changes_follow_each_other(runtime: Any, model: Any) -> None:
    model.reshape([-1, 3])
    (more,) = model.add_outputs(("more", 0))
    model.reshape([2, 3])
    assert list(more.shape) == [2, 3]
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input().tensor().set_element_type(runtime.ov.Type.i32)
    processor.output(1).tensor().set_element_type(runtime.ov.Type.f64)
    model = processor.build()
    (doubled,) = model.add_outputs("doubled")
    model.reshape([1, 3])
    assert [port.element_type.type_name for port in model.outputs] == ["f32", "f64", "f32"]
    assert list(doubled.shape) == [1, 3]
    clone = model.clone()
    clone.add_outputs(("parts", 0))
    assert (len(model.outputs), len(clone.outputs)) == (3, 4)
    compiled = runtime.core.compile_model(clone, "CPU", UNCHANGED)
    results = compiled(np.array([[-1, 0, 2]], np.int32))
    assert [value.tolist() for value in results.values()] == [
        [[1.0, 5.0]],
        [[-1.0, 1.0, 5.0]],
        [[-2.0, 0.0, 4.0]],
        [[-1.0]],
    ]


def test_nodes_tell_what_was_added(model: Any) -> None:
    model.add_outputs(("more", 0))
    assert [node.get_type_name() for node in model.get_ordered_ops()].count("Result") == 2
    assert model.get_result_index(model.results[1]) == 1


@pytest.mark.parametrize(
    ("outputs", "error", "text"),
    [
        ("no", RuntimeError, r"Model::add_output. Tensor name 'no' was not found\."),
        (("no", 0), RuntimeError, r"Model::add_output. Operation with name 'no' was not found\."),
        (("more", 1), RuntimeError, "Cannot add output to port 1 operation more has only 1 outputs"),
        (("more", -1), RuntimeError, f"Cannot add output to port {2**64 - 1} operation more has only 1 outputs"),
        (("more", 2**31), RuntimeError, r"Unable to cast Python instance of type <class 'int'> to C\+\+ type '\?'"),
        (("more", 0.0), RuntimeError, r"Unable to cast Python instance of type <class 'float'> to C\+\+ type '\?'"),
        ((None, 0), RuntimeError, r"Unable to cast Python instance of type <class 'NoneType'> to C\+\+ type '\?'"),
        (("more",), IndexError, "tuple index out of range"),
        (5, TypeError, r"^Incorrect type of a value to add as output\.$"),
        (None, TypeError, r"^Incorrect type of a value to add as output\.$"),
        ({"more"}, TypeError, r"^Incorrect type of a value to add as output\.$"),
        (["out", ["out"]], TypeError, r"^Incorrect type of a value to add as output at index 1\.$"),
    ],
)
def test_what_is_no_output_is_refused(model: Any, outputs: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        model.add_outputs(outputs)
    assert len(model.outputs) == 1


def test_of_none_nothing_comes(model: Any) -> None:
    assert model.add_outputs([]) == []
    assert len(model.outputs) == 1
