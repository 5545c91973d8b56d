"""A model's inputs and outputs are called what the program calls them, from then on."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import numpy as np
import pytest

UNCHANGED = {"INFERENCE_PRECISION_HINT": "f32"}
A, B = np.array([[1, 2, 3]], np.float32), np.array([[10, 20, 30]], np.float32)

Naming = Callable[[Any, Set[str]], None]

WAYS: list[Naming] = [
    lambda port, names: port.set_names(names),
    lambda port, names: port.get_tensor().set_names(names),
    lambda port, names: port.tensor.set_names(names=names),
    lambda port, names: port.node.output(0).set_names(names),
    lambda port, names: port.node.outputs()[0].tensor.set_names(names),
    lambda port, names: port.node.get_output_tensor(index=0).set_names(names),
]


@pytest.fixture
def model(runtime: Any) -> Any:
    return runtime.core.read_model(runtime.models["two"])


def names_of(model: Any) -> list[set[str]]:
    return [port.names for port in (*model.inputs, *model.outputs)]


@pytest.mark.parametrize("name", WAYS)
def test_an_inference_knows_the_names_that_were_set(runtime: Any, model: Any, name: Naming) -> None:
    left, right, difference = model.input("a"), model.input(1), model.output(1)
    name(left, {"left", "first"})
    name(right, {"right"})
    name(difference, {"less"})
    assert names_of(model) == [{"left", "first"}, {"right"}, {"sum"}, {"less"}]
    assert (left.any_name, left.get_any_name(), left.get_names()) == ("first", "first", {"first", "left"})
    assert model.input("left") == left
    compiled = runtime.core.compile_model(model, "CPU", UNCHANGED)
    assert names_of(compiled) == names_of(model)
    assert compiled.input("left") == compiled.input("first") == compiled.input(0)
    assert compiled({"left": A, "right": B})["less"].tolist() == [[-9, -18, -27]]
    request = compiled.create_infer_request()
    request.set_tensor("first", runtime.ov.Tensor(A))
    request.set_tensor(right, runtime.ov.Tensor(B))
    request.infer()
    assert request.get_tensor(difference).data.tolist() == [[-9, -18, -27]]
    assert request.get_tensor("sum").data.tolist() == [[11, 22, 33]]
    with pytest.raises(RuntimeError, match=r"Input for tensor name 'a' is not found\."):
        compiled.input("a")
    with pytest.raises(RuntimeError, match=r"Port for tensor name a was not found\."):
        request.get_tensor("a")


def test_names_are_added_to_those_there_are(runtime: Any, model: Any) -> None:
    model.input(0).add_names({"x"})
    model.output(0).get_tensor().add_names(frozenset({"total", "sum"}))
    model.output(0).add_names({"all": 1}.keys())
    assert names_of(model) == [{"a", "x"}, {"b"}, {"sum", "total", "all"}, {"difference"}]
    assert names_of(runtime.core.compile_model(model, "CPU", UNCHANGED)) == names_of(model)


def test_a_port_can_lose_its_names(runtime: Any, model: Any) -> None:
    model.input(0).set_names(set())
    model.output(0).tensor.set_names(set())
    assert names_of(model) == [set(), {"b"}, set(), {"difference"}]
    with pytest.raises(RuntimeError, match="Attempt to get a name for a Tensor without names"):
        _ = model.input(0).tensor.any_name
    compiled = runtime.core.compile_model(model, "CPU", UNCHANGED)
    assert compiled([A, B])[0].tolist() == [[11, 22, 33]]


def shapes_of(model: Any) -> list[str]:
    return [str(port.partial_shape) for port in (*model.inputs, *model.outputs)]


def test_ports_without_names_take_shapes(runtime: Any, model: Any) -> None:
    for port in model.inputs:
        port.get_tensor().set_names(set())
    model.reshape({0: [2, 3], model.input(1): [-1, 3]})
    assert shapes_of(model) == ["[2,3]", "[?,3]", "[2,3]", "[2,3]"]
    model.reshape({model.input(0): "?,3"})
    assert shapes_of(model) == ["[?,3]"] * 4
    with pytest.raises(RuntimeError, match="'a'"):
        model.reshape({"a": [1, 3]})
    with pytest.raises(RuntimeError, match="must be called on a Model with exactly one parameter"):
        model.reshape([1, 3])
    for port in model.inputs:
        port.node.layout = runtime.ov.Layout("NC")
    runtime.ov.set_batch(model, 4)
    clone = model.clone()
    model.input(0).set_names({"left"})
    model.reshape({"left": [1, 3], 1: [1, 3]})
    compiled = runtime.core.compile_model(model, "CPU", UNCHANGED)
    assert compiled([A, B])[0].tolist() == [[11, 22, 33]]
    assert (shapes_of(model), shapes_of(clone)) == (["[1,3]"] * 4, ["[4,3]"] * 4)


def test_the_only_input_takes_a_shape_without_a_name(runtime: Any) -> None:
    model = runtime.core.read_model(runtime.models["relu"])
    model.input().set_names(set())
    model.reshape([2, 3])
    assert shapes_of(model) == ["[2,3]"] * 2
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input().tensor().set_element_type(runtime.ov.Type.u8)
    model = processor.build()
    model.input().set_names(set())
    model.reshape("?,3")
    assert shapes_of(model) == ["[?,3]"] * 2
    compiled = runtime.core.compile_model(model, "CPU", UNCHANGED)
    assert compiled([np.array([[1, 2, 3]] * 4, np.uint8)])[0].tolist() == [[1, 2, 3]] * 4


def test_inputs_that_a_file_names_nothing_take_shapes(runtime: Any, tmp_path: Path) -> None:
    named = runtime.models["two"]
    (tmp_path / "nameless.xml").write_text(re.sub(r' names="[^"]*"', "", named.read_text()))
    (tmp_path / "nameless.bin").write_bytes(named.with_suffix(".bin").read_bytes())
    model = runtime.core.read_model(tmp_path / "nameless.xml")
    assert [port.names for port in model.inputs] == [set(), set()]
    model.reshape({0: [2, 3], model.input(1): [2, 3]})
    assert shapes_of(model) == ["[2,3]"] * 4


def test_each_of_two_of_one_name_takes_a_shape(runtime: Any) -> None:
    model = runtime.core.read_model(runtime.models["two"])
    model.reshape({"a": [-1, 3], "b": [-1, 3]})
    for port in model.inputs:
        port.set_names({"data"})
    model.reshape({model.input(1): [2, 3]})
    assert shapes_of(model)[:2] == ["[?,3]", "[2,3]"]
    model.reshape({"data": [2, 3]})
    assert shapes_of(model)[:2] == ["[2,3]", "[2,3]"]


def test_names_and_other_changes_follow_each_other(runtime: Any, model: Any) -> None:
    model.reshape({"a": [-1, 3], "b": [-1, 3]})
    model.input("a").set_names({"left"})
    model.output("sum").set_names({"total"})
    clone = model.clone()
    clone.output("total").set_names({"of the clone"})
    model.reshape({"left": [2, 3], "b": [2, 3]})
    assert [str(port.partial_shape) for port in (*model.inputs, *model.outputs)] == ["[2,3]"] * 4
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input("left").tensor().set_element_type(runtime.ov.Type.u8)
    processor.output("total").tensor().set_element_type(runtime.ov.Type.f64)
    model.input("b").set_names({"right"})
    model.output("difference").set_names({"less"})
    model = processor.build()
    assert names_of(model) == [{"left"}, {"right"}, {"total"}, {"less"}]
    model.input("left").set_names({"of bytes"})
    model.reshape({"of bytes": [1, 3], "right": [1, 3]})
    (added,) = model.add_outputs("less")
    assert added == model.output(1)
    compiled = runtime.core.compile_model(model, "CPU", UNCHANGED)
    assert names_of(compiled) == [{"of bytes"}, {"right"}, {"total"}, {"less"}]
    assert compiled({"of bytes": np.array([[1, 2, 3]], np.uint8), "right": B})["total"].tolist() == [[11, 22, 33]]
    assert names_of(clone) == [{"left"}, {"b"}, {"of the clone"}, {"difference"}]


def test_a_friendly_name_outlives_preprocessing(runtime: Any, model: Any) -> None:
    model.input("a").node.friendly_name = "left"
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input("a").tensor().set_element_type(runtime.ov.Type.u8)
    model = processor.build()
    assert [node.friendly_name for node in model.get_parameters()] == ["left", "b"]
    assert runtime.core.compile_model(model, "CPU").input("a").node.friendly_name == "left"


def test_a_compiled_model_keeps_the_names_it_was_compiled_with(runtime: Any, model: Any) -> None:
    model.output(0).set_names({"before"})
    compiled = runtime.core.compile_model(model, "CPU", UNCHANGED)
    model.output(0).set_names({"after"})
    assert compiled.output(0).names == compiled.output(0).tensor.names == {"before"}
    imported = runtime.core.import_model(io.BytesIO(compiled.export_model().getvalue()), "CPU")
    assert imported.output(0).names == {"before"}
    assert runtime.core.compile_model(model, "CPU", UNCHANGED).output(0).names == {"after"}


def test_two_may_have_the_same_name(runtime: Any, model: Any) -> None:
    for port in model.outputs:
        port.set_names({"out"})
    compiled = runtime.core.compile_model(model, "CPU", UNCHANGED)
    assert [port.names for port in compiled.outputs] == [{"out"}] * 2
    assert compiled([A, B])["out"].tolist() == [[11, 22, 33]]


def test_a_tensor_of_a_port_tells_what_the_port_does(runtime: Any, model: Any) -> None:
    compiled = runtime.core.compile_model(model, "CPU", UNCHANGED)
    for port in (model.input(0), compiled.input(0)):
        tensor = port.get_tensor()
        assert repr(tensor) == "<DescriptorTensor: names[a] shape[1,3] type: f32>"
        assert (tensor.any_name, tensor.get_names(), tensor.size) == ("a", {"a"}, 12)
        assert (tensor.element_type, tensor.get_shape()) == (port.element_type, port.shape)
        assert tensor == port.tensor
        assert len({tensor, port.tensor}) == 1
        assert tensor != port
    other = runtime.core.read_model(runtime.models["two"])
    assert model.input(0).tensor not in (model.input(1).tensor, other.input(0).tensor)
    assert model.input(0).node.get_output_tensor(0) == model.input(0).tensor
    with pytest.raises(RuntimeError, match="index '1' out of range"):
        model.input(0).node.get_output_tensor(1)
    with pytest.raises(TypeError, match=r"get_output_tensor\(\): incompatible function arguments"):
        model.input(0).node.get_output_tensor(-1)
    model.reshape({"a": [-1, 3], "b": [-1, 3]})
    with pytest.raises(RuntimeError, match=r"to_shape was called on a dynamic shape\."):
        _ = model.input(0).tensor.size
    with pytest.raises(TypeError, match="No constructor defined!"):
        type(tensor)()


@pytest.mark.parametrize("names", [None, "ab", ["a"], ("a",), {"a": 1}, {1}, {"a", None}, {"a": "b"}.values()])
def test_what_is_no_set_of_names_is_refused(model: Any, names: Any) -> None:
    port = model.input(0)
    for naming in (port.set_names, port.add_names, port.tensor.set_names, port.tensor.add_names):
        with pytest.raises(TypeError, match=rf"^{naming.__name__}\(\): incompatible function arguments"):
            naming(names)
    assert port.names == {"a"}
