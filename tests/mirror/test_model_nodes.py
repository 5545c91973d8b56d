"""What a model that is read but not compiled tells of itself."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.mirror.conftest import make_model


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An IR with runtime information of every kind."""
    data = op.parameter([-1, 3], np.float32, name="data")
    data.output(0).get_tensor().set_names({"data", "alias"})
    model = make_model([op.result(op.relu(data))], [data], "described")
    for value, path in (
        ("resnet", ["model_info", "model_type"]),
        ([1, 2, 3], ["model_info", "labels"]),
        (True, ["model_info", "flag"]),
        ({"x": {"y": 1.5}}, ["model_info", "deep"]),
        ("a b", ["model_info", "a name with spaces"]),
        ("top", "toplevel"),
    ):
        model.set_rt_info(value, path)
    path = tmp_path_factory.mktemp("described") / "described.xml"
    openvino.save_model(model, path, compress_to_fp16=False)
    return path


@pytest.fixture
def model(runtime: Any, described: Path) -> Any:
    return runtime.core.read_model(described)


ASKED: dict[str, Callable[[Any, Any], object]] = {
    "name": lambda ov, model: (model.friendly_name, model.get_friendly_name()),
    "parameters": lambda ov, model: [node.get_friendly_name() for node in model.get_parameters()],
    "parameters' attributes": lambda ov, model: [node.get_attributes() for node in model.parameters],
    "results": lambda ov, model: [node.get_type_name() for node in model.results],
    "result": lambda ov, model: model.get_result().get_attributes() == model.result.get_attributes() == {},
    "parameter's index": lambda ov, model: model.get_parameter_index(model.get_parameters()[0]),
    "result's index": lambda ov, model: [model.get_result_index(x) for x in (model.get_result(), model.output())],
    "output size": lambda ov, model: model.get_output_size(),
    "output type": lambda ov, model: model.get_output_element_type(0).type_name,
    "output shape": lambda ov, model: str(model.get_output_partial_shape(0)),
    "nodes as text": lambda ov, model: [str(each).partition("(")[2] for each in model.parameters + model.results],
    "parameter": lambda ov, model: [
        str(model.parameters[0].partial_shape),
        str(model.parameters[0].get_partial_shape()),
        model.parameters[0].element_type.type_name,
        model.parameters[0].get_shape(),
    ],
    "a result has no members of a parameter": lambda ov, model: [
        hasattr(model.result, name) for name in ("get_partial_shape", "partial_shape", "element_type", "get_shape")
    ],
    "outputs of nodes": lambda ov, model: [
        (str(each).partition(":")[0], isinstance(each, ov.Output), isinstance(each, ov.ConstOutput))
        for node in (model.input().node, model.result)
        for each in (node.output(0), *node.outputs())
    ],
    "an output of a node is the port": lambda ov, model: model.parameters[0].output(0) == model.input(),
    "node": lambda ov, model: [
        str(model.input().node.get_output_partial_shape(0)),
        model.input().node.get_output_element_type(0).type_name,
        model.input().node.output(0).get_any_name(),
        len(model.input().node.outputs()),
    ],
    "inputs of a result": lambda ov, model: [
        (repr(each), each.get_index(), each.get_node() == model.result, each.get_element_type().type_name)
        for each in (model.result.input(0), *model.result.inputs())
    ],
    "shape of a result's input": lambda ov, model: str(model.result.input(0).get_partial_shape()),
    "inputs of a parameter": lambda ov, model: model.parameters[0].inputs(),
    "rt_info": lambda ov, model: list(model.get_rt_info())[1:],
    "rt_info below": lambda ov, model: sorted(model.get_rt_info()["model_info"]),
    "rt_info's values": lambda ov, model: [
        model.get_rt_info(path).value
        for path in (["model_info", "model_type"], ["model_info", "deep", "x", "y"], "toplevel", ["version"])
    ],
    "rt_info, one by one": lambda ov, model: model.get_rt_info()["model_info"]["a name with spaces"].value,
    "rt_info's types": lambda ov, model: [
        model.get_rt_info(["model_info", "labels"]).aslist(int),
        model.get_rt_info(["model_info", "flag"]).astype(bool),
        model.get_rt_info(["model_info"]).astype(dict)["model_type"].value,
    ],
    "rt_info there": lambda ov, model: [
        model.has_rt_info(path) for path in ("toplevel", "nothing", ["model_info", "flag"], ["model_info", "x"])
    ],
    "layout": lambda ov, model: ov.layout_helpers.get_layout(model.input()).empty,
    "layout set": lambda ov, model: (
        ov.layout_helpers.set_layout(model.input(), ov.Layout("NC")),
        str(ov.layout_helpers.get_layout(model.input())),
        str(model.get_parameters()[0].layout),
        model.get_parameters()[0].get_layout() == "[N,C]",
    ),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED.keys())
def test_a_model_answers_as_openvinos(described: Path, runtime: Any, model: Any, ask: Callable[..., object]) -> None:
    local = openvino.Core().read_model(described)
    assert ask(runtime.ov, model) == ask(openvino, local)


NO_OUTPUT: dict[str, tuple[Callable[[Any, int], object], str]] = {
    "shape": (lambda node, index: node.get_output_shape(index), "index '1' out of range"),
    "partial shape": (lambda node, index: node.get_output_partial_shape(index), "index '1' out of range"),
    "type": (lambda node, index: node.get_output_element_type(index=index), "index '1' out of range"),
    "port": (lambda node, index: node.output(index), "node index is out of range"),
}


@pytest.mark.parametrize(("ask", "said"), NO_OUTPUT.values(), ids=NO_OUTPUT.keys())
def test_an_output_that_a_node_has_not(runtime: Any, model: Any, ask: Callable[..., object], said: str) -> None:
    run = runtime.compile("relu").get_runtime_model().get_ordered_ops()
    for node in (model.parameters[0], model.result, *run):
        with pytest.raises(RuntimeError, match=said):
            ask(node, 1)
        with pytest.raises(TypeError, match="incompatible function arguments"):
            ask(node, -1)


def test_ports_of_a_model_and_of_its_compilation_are_of_two_classes(runtime: Any, model: Any) -> None:
    ov, compiled = runtime.ov, runtime.core.compile_model(model, "CPU")
    for given, computed in ((model.input(), compiled.input()), (model.output(), compiled.output())):
        assert [isinstance(port, ov.Output) for port in (given, computed)] == [True, False]
        assert [isinstance(port, ov.ConstOutput) for port in (given, computed)] == [False, True]
        assert isinstance(computed.node.output(0), ov.Output)
        assert computed.node.output(0) != computed
        with pytest.raises(TypeError, match="'<' not supported between"):
            assert given < computed


def test_a_port_of_a_model_is_copied_but_not_deep(model: Any) -> None:
    assert copy.copy(model.input()) == model.input()
    assert repr(copy.copy(model.input())) == repr(model.input())
    with pytest.raises(TypeError, match=r"Cannot deepcopy 'openvino\.Output' object\."):
        copy.deepcopy(model.input())
    with pytest.raises(TypeError, match=r"cannot pickle '[\w.]+\.Output' object"):
        pickle.dumps(model.input())


def test_ports_of_a_compilation_are_none_of_the_model(runtime: Any, model: Any) -> None:
    compiled = runtime.core.compile_model(model, "CPU")
    with pytest.raises(TypeError, match=r"expected keys as openvino\.Output, int or str"):
        model.reshape({compiled.input(): [2, 3]})
    with pytest.raises(RuntimeError, match="is not used in "):
        model.reshape({model.clone().input(): [2, 3]})
    with pytest.raises(TypeError, match="incompatible function arguments"):
        runtime.ov.layout_helpers.set_layout(compiled.input(), runtime.ov.Layout("NC"))
    with pytest.raises(TypeError, match="Unknown key type"):
        compiled(np.zeros((1, 3), np.float32))[model.output()]


@pytest.mark.parametrize("shape", [[1, 3], [-1, 3], "?,1..3", openvino.PartialShape.dynamic()])
def test_a_parameter_says_its_lengths_as_far_as_they_are_known(runtime: Any, tmp_path: Path, shape: Any) -> None:
    data = op.parameter(openvino.PartialShape(shape), np.float32, name="data")
    openvino.save_model(made := make_model([op.result(op.relu(data))], [data]), path := tmp_path / "shaped.xml")
    read = runtime.core.read_model(path).get_parameters()[0]
    assert read.get_shape() == read.get_attributes()["shape"] == made.get_parameters()[0].get_shape()


def facts(node: Any) -> tuple[object, ...]:
    return (
        node.get_friendly_name(),
        node.get_type_name(),
        node.get_input_size(),
        str(node).partition("(")[2],
        [repr(port) for port in node.outputs()],
    )


def sources(model: Any) -> list[tuple[object, ...]]:
    outputs = [port.get_node().input(0).get_source_output() for port in model.outputs]
    return [(repr(each), each.get_index(), *facts(each.get_node())[:2], each.get_names()) for each in outputs]


@pytest.fixture
def branching(tmp_path: Path) -> Path:
    """An IR with constants and a node of two outputs."""
    data = op.parameter([-1, 4], np.float32, name="data")
    data.output(0).get_tensor().set_names({"data"})
    halves = op.split(data, op.constant(np.int64(1)), 2)
    halves.set_friendly_name("halves")
    model = make_model([op.result(op.relu(halves.output(0))), op.result(op.exp(halves.output(1)))], [data], "branching")
    openvino.save_model(model, path := tmp_path / "branching.xml", compress_to_fp16=False)
    return path


@pytest.fixture
def halved(tmp_path: Path) -> Path:
    """An IR whose outputs are those of one node."""
    data = op.parameter([-1, 4], np.float32, name="data")
    halves = op.split(data, op.constant(np.int64(1)), 2)
    halves.set_friendly_name("halves")
    for index in range(2):
        halves.output(index).get_tensor().set_names({f"half {index}"})
    model = make_model([op.result(each) for each in halves.outputs()], [data], "halved")
    openvino.save_model(model, path := tmp_path / "halved.xml", compress_to_fp16=False)
    return path


def test_the_nodes_of_its_graph(runtime: Any, branching: Path) -> None:
    """As ultralytics looks for those of a quantized model, and Intel's model_api for its inputs'."""
    local, model = openvino.Core().read_model(branching), runtime.core.read_model(branching)
    for _ in range(2):
        nodes = model.get_ordered_ops()
        assert [facts(each) for each in nodes] == [facts(each) for each in local.get_ordered_ops()]
        assert sorted(map(facts, model.get_ops())) == sorted(map(facts, local.get_ops()))
        assert {"Constant", "Split", "Relu", "Exp"} < {each.get_type_name() for each in nodes}
        local.reshape([2, 4])
        model.reshape([2, 4])


def test_what_its_nodes_were_made_with(runtime: Any, tmp_path: Path) -> None:
    """As Intel's model_api and Open Model Zoo's demos ask of nodes that are named as outputs."""
    data = op.parameter([1, 125, 13, 13], np.float32, name="data")
    axes = op.constant(np.array([2, 3], np.int64))
    smaller = op.interpolate(
        data, op.constant(np.array([7, 7], np.int64)), "nearest", "sizes", [0, 0], [0, 0], axes=axes
    )
    regions = op.region_yolo(smaller, 4, 20, 5, True, [0, 1, 2], 1, 3, [1.08, 1.19, 3.42])
    openvino.save_model(
        make_model([op.result(regions)], [data]), path := tmp_path / "regions.xml", compress_to_fp16=False
    )

    def told(core: Any) -> list[tuple[str, dict[str, object]]]:
        nodes = core.read_model(path).get_ordered_ops()
        return [(node.get_type_name(), dict(sorted(node.get_attributes().items()))) for node in nodes]

    assert repr(told(runtime.core)) == repr(told(openvino.Core()))


def test_the_nodes_of_its_graph_are_those_behind_its_ports(runtime: Any, branching: Path) -> None:
    model = runtime.core.read_model(branching)
    nodes = {each.get_friendly_name(): each for each in model.get_ops()}
    for end in (*model.parameters, *model.results):
        nodes[end.friendly_name].set_friendly_name(f"{end.friendly_name}, renamed")
    nodes["halves"].set_friendly_name("two halves")
    assert [each.friendly_name for each in model.parameters] == ["data, renamed"]
    assert all(each.friendly_name.endswith(", renamed") for each in model.results)
    assert {"data, renamed", "two halves"} < {each.friendly_name for each in model.get_ops()}


def test_the_nodes_that_compute_its_outputs(runtime: Any, halved: Path) -> None:
    """As openvino's benchmark_app names outputs."""
    local, model = openvino.Core().read_model(halved), runtime.core.read_model(halved)
    for _ in range(2):
        assert sources(model) == sources(local)
        assert [each[1:4] for each in sources(model)] == [(0, "halves", "Split"), (1, "halves", "Split")]
        local.reshape([2, 4])
        model.reshape([2, 4])
    assert sources(model.clone()) == sources(local)
    assert list(model.results[1].input(0).get_shape()) == [2, 2]


def test_an_input_that_a_node_has_not(model: Any) -> None:
    for node in (model.parameters[0], model.result):
        with pytest.raises(RuntimeError, match="node index is out of range"):
            node.input(1)
        with pytest.raises(TypeError, match="incompatible function arguments"):
            node.input(-1)


def test_inputs_between_ports_are_not_offered(runtime: Any, branching: Path) -> None:
    if runtime.ov is openvino:
        pytest.skip("openvino has them")
    (relu,) = (each for each in runtime.core.read_model(branching).get_ops() if each.get_type_name() == "Relu")
    for ask in (relu.inputs, lambda: relu.input(0)):
        with pytest.raises(RuntimeError, match="is not offered by inferwire"):
            ask()


def test_values_of_constants_are_not_offered(runtime: Any, branching: Path) -> None:
    if runtime.ov is openvino:
        pytest.skip("openvino has them")
    constants = [each for each in runtime.core.read_model(branching).get_ops() if each.get_type_name() == "Constant"]
    assert constants
    for each in constants:
        with pytest.raises(AttributeError, match=r"openvino\.Constant\.data is not offered by inferwire: the graph"):
            _ = each.data


def test_the_nodes_of_its_graph_with_preprocessing(runtime: Any, branching: Path) -> None:
    def kinds(ov: Any, core: Any) -> list[str]:
        steps = ov.preprocess.PrePostProcessor(core.read_model(branching))
        steps.input().tensor().set_element_type(ov.Type.u8)
        return sorted(each.get_type_name() for each in steps.build().get_ops())

    assert kinds(runtime.ov, runtime.core) == kinds(openvino, openvino.Core())


def test_what_is_set_in_rt_info_is_any_value(runtime: Any, model: Any) -> None:
    model.rt_info["x"] = "y"
    model.rt_info["n"] = 5
    model.set_rt_info({"a": {"b": 1}, "c": [1, 2]}, "d")
    kinds = (model.rt_info["x"], model.rt_info["n"], model.rt_info["d"]["a"]["b"], model.get_rt_info()["d"]["c"])
    assert all(isinstance(each, runtime.ov.OVAny) for each in kinds)
    assert [each.value for each in kinds] == ["y", 5, 1, [1, 2]]
    assert repr(model.get_rt_info("d").value) == "{'a': {'b': 1}, 'c': [1, 2]}"
    assert type(model.get_rt_info(["model_info", "deep"]).value["x"]["y"]) is str
    assert model.get_rt_info(["d", "a", "b"]).astype(int) == 1
    model.set_rt_info(runtime.ov.OVAny({"a": 1}), "any")
    assert model.get_rt_info(["any", "a"]).value == 1


def test_rt_info_comes_in_the_order_of_its_names(model: Any) -> None:
    model.set_rt_info(1, ["new", "z"])
    model.set_rt_info(2, ["new", "a"])
    model.set_rt_info({"b": 1, "a": 2}, "deep")
    model.set_rt_info(3, ["new", "z"])
    for given in (model, model.clone()):
        assert list(given.rt_info.keys()) == sorted(given.rt_info.keys())
        assert [(name, each.value) for name, each in given.rt_info["new"].items()] == [("a", 2), ("z", 3)]
        assert list(given.get_rt_info("deep").value) == ["a", "b"]


@pytest.mark.parametrize("path", ["nothing", ["model_info", "nothing"], ["model_info", "flag", "x", "y"]])
def test_rt_info_that_is_not_there(model: Any, path: Any) -> None:
    with pytest.raises(RuntimeError, match="Path to runtime attribute is incorrect"):
        model.get_rt_info(path)


def test_rt_info_of_no_path(model: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        model.get_rt_info(3)


def test_an_onnx_file_has_its_metadata(runtime: Any, tmp_path: Path) -> None:
    pair = b"\x0a\x09character\x12\x03a\nb"
    file = tmp_path / "sigmoid.onnx"
    sigmoid = Path(__file__).resolve().parents[1] / "data/sigmoid.onnx"
    file.write_bytes(sigmoid.read_bytes() + b"\x72" + bytes([len(pair)]) + pair)
    model = runtime.core.read_model(file)
    assert model.get_rt_info(["framework", "character"]).value == "a\nb"
    assert model.get_rt_info()["framework"]["character"].value == "a\nb"
    assert runtime.core.read_model(sigmoid).has_rt_info("framework") is False


def test_a_clone_has_what_was_set_and_is_set_on_its_own(model: Any) -> None:
    model.set_rt_info("yolo", ["model_info", "model_type"])
    model.set_rt_info(7, ["new", "deep"])
    model.input().node.friendly_name = "picture"
    model.output().node.set_friendly_name("scores")
    for twin in (model.clone(), copy.deepcopy(model)):
        assert [twin.get_rt_info(path).value for path in (["model_info", "model_type"], ["new", "deep"])] == ["yolo", 7]
        assert [port.node.friendly_name for port in (twin.input(), twin.output())] == ["picture", "scores"]
        twin.set_rt_info("ssd", ["model_info", "model_type"])
        twin.input().node.friendly_name = "frame"
    assert model.get_rt_info(["model_info", "model_type"]).value == "yolo"
    assert model.input().node.friendly_name == "picture"


def test_a_compilation_has_the_names_that_were_set(runtime: Any, model: Any) -> None:
    model.input().node.friendly_name = "picture"
    model.output().node.friendly_name = "scores"
    compiled = runtime.core.compile_model(model, "CPU")
    assert [port.node.friendly_name for port in (compiled.input(), compiled.output())] == ["picture", "scores"]


def test_nodes_follow_a_reshape(model: Any) -> None:
    node = model.input().node
    model.reshape([2, 3])
    assert list(node.shape) == [2, 3]
    assert list(model.get_output_shape(0)) == [2, 3]


def test_of_two_shapes_for_one_input_the_first_counts(model: Any) -> None:
    model.reshape({0: (1, 3), "data": (2, 3)})
    assert model.input(0).shape == [1, 3]
    model.reshape({"data": (2, 3), model.input(0): (4, 3)})
    assert model.input(0).shape == [2, 3]


@pytest.mark.parametrize("position", [-1, 2**64])
def test_a_shape_for_no_position(model: Any, position: int) -> None:
    with pytest.raises(RuntimeError, match="Unable to cast Python instance of type <class 'int'>"):
        model.reshape({position: (1, 3)})


def test_rt_info_leads_through_no_value(model: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Path to runtime attribute is incorrect\."):
        model.set_rt_info("x", ["model_info", "model_type", "deeper"])
    assert model.get_rt_info(["model_info", "model_type"]).value == "resnet"


def test_rt_info_that_is_looked_for_is_there_from_then_on(model: Any) -> None:
    assert not model.has_rt_info("missing")
    assert model.rt_info["missing"].value is None
    assert model.has_rt_info("missing")
    assert "missing" in model.rt_info
    assert model.get_rt_info("missing").value is None
    with pytest.raises(KeyError):
        model.rt_info["model_info"]["missing"]


@pytest.mark.parametrize(
    ("given", "value"),
    [(np.float32(1.5), 1.5), (b"bytes", "bytes"), (np.str_("text"), "text"), ({"a": np.float32(2)}, {"a": 2.0})],
    ids=repr,
)
def test_rt_info_of_pythons_own_types(model: Any, given: object, value: object) -> None:
    model.set_rt_info(given, "given")
    found = model.get_rt_info("given").value
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("item", [np.int64(1), None, b"x"], ids=repr)
def test_rt_info_of_lists_without_a_type(model: Any, item: object) -> None:
    with pytest.raises(RuntimeError, match=r"Unsupported attribute type\."):
        model.set_rt_info([item], "given")


def test_nodes_are_of_openvinos_classes(model: Any) -> None:
    assert {type(node).__name__ for node in (model.results[0], model.get_result(), model.output(0).node)} == {"Result"}
    assert {type(node).__name__ for node in (model.parameters[0], model.input(0).node)} == {"Parameter"}
