"""A model that was read is looked at, reshaped and cloned as openvino's."""

from __future__ import annotations

import copy
from typing import Any

import pytest


@pytest.fixture
def two(runtime: Any) -> Any:
    return runtime.core.read_model(runtime.models["two"])


@pytest.fixture
def dynamic(runtime: Any) -> Any:
    return runtime.core.read_model(runtime.models["dynamic"])


def test_its_names(two: Any) -> None:
    assert two.name == two.get_name()
    assert two.name.startswith("Model")
    assert two.friendly_name == "mirrored"
    two.set_friendly_name("third")
    assert two.friendly_name == two.get_friendly_name() == two.clone().friendly_name == "third"
    two.friendly_name = "other"
    assert two.friendly_name == "other"
    with pytest.raises(TypeError, match=r"set_friendly_name\(\): incompatible function arguments"):
        two.set_friendly_name(3)


def test_its_repr(two: Any) -> None:
    assert repr(two) == (
        "<Model: 'mirrored'\n"
        "inputs[\n<ConstOutput: names[a] shape[1,3] type: f32>,\n<ConstOutput: names[b] shape[1,3] type: f32>\n]\n"
        "outputs[\n<ConstOutput: names[sum] shape[1,3] type: f32>,\n"
        "<ConstOutput: names[difference] shape[1,3] type: f32>\n]>"
    )


def test_its_ports(two: Any) -> None:
    assert two.input(0) == two.input(index=0) == two.input("a") == two.input(tensor_name="a") == two.inputs[0]
    assert two.output(1) == two.output("difference") == two.outputs[1]
    for key in (-1, 1.5, two.inputs[0]):
        for find in (two.input, two.output):
            with pytest.raises(TypeError, match=r"put\(\): incompatible function arguments"):
                find(key)


def test_its_outputs_by_position(runtime: Any, two: Any, dynamic: Any) -> None:
    assert two.get_output_size() == 2
    assert list(two.get_output_shape(0)) == [1, 3]
    assert str(dynamic.get_output_partial_shape(0)) == "[?,3]"
    assert two.get_output_element_type(1) == runtime.ov.Type.f32
    with pytest.raises(RuntimeError, match="to_shape was called on a dynamic shape"):
        dynamic.get_output_shape(0)
    for look in (two.get_output_shape, two.get_output_partial_shape, two.get_output_element_type):
        with pytest.raises(IndexError, match=r"vector::_M_range_check: __n \(which is 5\) >= this->size\(\)"):
            look(5)
        with pytest.raises(TypeError, match="incompatible function arguments"):
            look(-1)


def test_its_nodes(two: Any, dynamic: Any) -> None:
    assert [repr(node) for node in two.parameters] == [
        "<Parameter: 'a' ([1,3], float)>",
        "<Parameter: 'b' ([1,3], float)>",
    ]
    assert [repr(node).partition("'")[0] for node in two.get_results()] == ["<Result: ", "<Result: "]
    assert repr(two.results[0]).endswith("' ([1,3])>")
    assert [node.friendly_name for node in two.get_parameters()] == ["a", "b"]
    assert two.get_parameter_index(two.parameters[1]) == 1
    assert two.get_parameter_index(dynamic.parameters[0]) == two.get_parameter_index(None) == -1
    for other in (0, "a", two.inputs[0], two.results[0]):
        with pytest.raises(TypeError, match="get_parameter_index"):
            two.get_parameter_index(other)
    assert two.get_result_index(two.results[1]) == two.get_result_index(two.outputs[1]) == 1
    assert dynamic.get_result().get_type_name() == dynamic.result.get_type_name() == "Result"
    with pytest.raises(RuntimeError, match=r"get_result\(\) must be called on a Model with exactly one result"):
        two.get_result()


def test_a_clone_is_another_model(dynamic: Any) -> None:
    dynamic.reshape([2, 3])
    for other in (dynamic.clone(), copy.deepcopy(dynamic)):
        assert other is not dynamic
        assert other.name != dynamic.name
        assert other.input() != dynamic.input()
        other.reshape([7, 3])
        assert [str(model.input().partial_shape) for model in (other, dynamic)] == ["[7,3]", "[2,3]"]
    with pytest.raises(TypeError, match="Please, use deepcopy instead"):
        copy.copy(dynamic)


def test_it_is_a_context(runtime: Any) -> None:
    with runtime.core.read_model(runtime.models["two"]) as model:
        assert len(model.inputs) == 2


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((2, 3), "[2,3]"),
        ("[1..3,3]", "[1..3,3]"),
        ([[1, 2], 3], "[1..2,3]"),
        ([(1, 8), 3], "[1..8,3]"),
        ({0: "?,3"}, "[?,3]"),
        ({"data": (4, 3)}, "[4,3]"),
        ([2, 3, 4], "[2,3,4]"),
    ],
    ids=str,
)
def test_shapes_in_every_form(dynamic: Any, shape: Any, text: str) -> None:
    name = "partial_shapes" if isinstance(shape, dict) else "partial_shape"
    for args, kwargs in (((shape,), {}), ((shape, {}), {}), ((), {name: shape}), ((shape,), {"variables_shapes": {}})):
        assert dynamic.reshape(*args, **kwargs) is None
        assert str(dynamic.input().partial_shape) == text


def test_shapes_of_dimensions(runtime: Any, dynamic: Any) -> None:
    dynamic.reshape([runtime.ov.Dimension(1, 2), 3])
    assert str(dynamic.input().partial_shape) == "[1..2,3]"
    dynamic.reshape({dynamic.input(): runtime.ov.PartialShape([-1, 3])})
    assert str(dynamic.output().partial_shape) == "[?,3]"


def test_some_of_several_inputs(two: Any) -> None:
    two.reshape({"a": [2, 3], 1: [2, 3]})
    assert str(two.output(0).partial_shape) == "[2,3]"
    with pytest.raises(RuntimeError, match="must be called on a Model with exactly one parameter"):
        two.reshape([2, 3])


NO_SHAPE: dict[str, tuple[tuple[Any, ...], type[Exception], str]] = {
    "a number": ((3,), TypeError, r"reshape\(\): incompatible function arguments"),
    "None": ((None,), TypeError, r"reshape\(\): incompatible function arguments"),
    "nothing": ((), TypeError, r"reshape\(\): incompatible function arguments"),
    "variables that are none": (([2, 3], 3), TypeError, r"reshape\(\): incompatible function arguments"),
    "a number by name": (({"data": 3},), TypeError, "Incorrect value type <class 'int'> to reshape a model"),
    "by a float": (({1.5: [2, 3]},), TypeError, "Incorrect key type <class 'float'> to reshape a model"),
    "past the end": (({5: [2, 3]},), IndexError, r"vector::_M_range_check: __n \(which is 5\) >= this->size\(\)"),
    "an unknown name": (({"zz": [2, 3]},), RuntimeError, "'zz' is not found"),
    "a dimension that is none": (([2.5, 3],), TypeError, "Incorrect type <class 'float'> for dimension"),
    "text that is none": (("x",), RuntimeError, 'Cannot parse dimension: "x"'),
}


@pytest.mark.parametrize(("args", "kind", "text"), NO_SHAPE.values(), ids=NO_SHAPE.keys())
def test_what_is_no_shape(dynamic: Any, args: tuple[Any, ...], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        dynamic.reshape(*args)
    assert str(dynamic.input().partial_shape) == "[?,3]"
