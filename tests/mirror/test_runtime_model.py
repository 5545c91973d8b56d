"""The graph that a device runs is looked at as openvino's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.mirror.conftest import make_model


@pytest.fixture
def graph(runtime: Any) -> Any:
    return runtime.compile("two").get_runtime_model()


def test_its_nodes_say_how_they_run(graph: Any) -> None:
    nodes = graph.get_ordered_ops()
    kinds = [node.get_type_name() for node in nodes]
    assert sorted(kinds) == ["ExecutionNode", "ExecutionNode", "Parameter", "Parameter", "Result", "Result"]
    assert {"a", "b"} <= {node.friendly_name for node in nodes}
    assert len(graph.get_ops()) == len(nodes)
    for node in nodes:
        info = node.get_rt_info()
        assert {"primitiveType", "runtimePrecision", "layerType", "originalLayersNames"} <= set(info.keys())
        assert list(info.keys()) == sorted(info.keys())
        assert info["runtimePrecision"].value == node.rt_info["runtimePrecision"].astype(str) == "f32"
    run = nodes[kinds.index("ExecutionNode")]
    assert (run.get_input_size(), run.get_output_size()) == (2, 1)
    assert str(run.get_output_partial_shape(0)) == "[1,3]"
    assert list(run.get_output_shape(0)) == [1, 3]
    assert run.get_output_element_type(0).get_type_name() == "f32"


def test_it_says_nothing_of_the_models_file(graph: Any) -> None:
    """As ovkit asks it which task its model is for."""
    assert not graph.has_rt_info(["model_info", "task"])
    with pytest.raises(RuntimeError, match="Path to runtime attribute is incorrect"):
        graph.get_rt_info(["model_info", "task"])
    assert [list(graph.get_rt_info()), list(graph.rt_info)] == [[], []]
    graph.set_rt_info("detect", ["model_info", "task"])
    assert graph.get_rt_info(["model_info", "task"]).value == "detect"


@pytest.mark.parametrize("name", ["two", "dynamic", "integers"])
def test_its_nodes_as_text(runtime: Any, models: Any, name: str) -> None:
    """Only parameters say their type."""
    local = openvino.Core().compile_model(models[name], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def texts(compiled: Any) -> list[str]:
        nodes = compiled.get_runtime_model().get_ordered_ops()
        return sorted(f"{str(each).partition(':')[0]} {str(each).partition('(')[2]}" for each in nodes)

    assert texts(runtime.compile(name)) == texts(local)


def test_its_outputs(runtime: Any, graph: Any) -> None:
    for node in graph.get_ordered_ops():
        for port in (node.output(0), *node.outputs()):
            assert isinstance(port, runtime.ov.Output)
            assert repr(port) == "<Output: names[] shape[1,3] type: f32>"
            assert port.index == 0
            assert port.node.friendly_name == node.friendly_name
    parameter = graph.get_parameters()[0]
    assert (str(parameter.partial_shape), parameter.get_shape(), parameter.element_type.type_name) == (
        "[1,3]",
        [1, 3],
        "f32",
    )


def test_a_node_of_several_outputs(runtime: Any, tmp_path: Path) -> None:
    data = op.parameter([2, 4], np.float32, name="data")
    split = op.split(data, op.constant(np.int64(1)), 2)
    model = make_model([op.result(op.tanh(split.output(0))), op.result(op.exp(split.output(1)))], [data])
    openvino.save_model(model, tmp_path / "split.xml")
    nodes = runtime.core.compile_model(tmp_path / "split.xml", "CPU").get_runtime_model().get_ordered_ops()
    (node,) = (each for each in nodes if each.get_output_size() == 2)
    assert str(node).partition("(")[2] == "[2,2], [2,2])>"
    assert [port.index for port in node.outputs()] == [0, 1]
    assert node.output(0) != node.output(1) == node.outputs()[1]
    with pytest.raises(RuntimeError, match=r"get_shape\(\) must be called on a"):
        _ = node.shape
    with pytest.raises(RuntimeError, match=r"get_element_type\(\) must be called on a"):
        node.get_element_type()


@pytest.mark.parametrize("rows", [1, -1])
def test_a_product_without_a_bias(runtime: Any, tmp_path: Path, rows: int) -> None:
    """The bias it does not have is a constant of no type."""
    x = op.parameter([rows, 8], np.float32, name="x")
    model = make_model([op.result(op.matmul(x, op.constant(np.ones((8, 4), np.float32)), False, False))], [x])
    openvino.save_model(model, tmp_path / "product.xml", compress_to_fp16=False)

    def outputs(core: Any) -> list[str]:
        nodes = core.compile_model(tmp_path / "product.xml", "CPU").get_runtime_model().get_ordered_ops()
        return sorted(f"{node.get_type_name()} {node.outputs()}" for node in nodes)

    assert outputs(runtime.core) == outputs(openvino.Core())
    assert "ExecutionNode [<Output: names[] shape[0] type: dynamic>]" in outputs(runtime.core)


def test_its_ports(graph: Any) -> None:
    assert graph.friendly_name == "mirrored"
    assert repr(graph.inputs) == "[<Output: names[] shape[1,3] type: f32>, <Output: names[] shape[1,3] type: f32>]"
    assert [port.node.friendly_name for port in graph.inputs] == ["a", "b"]
    assert graph.inputs[0].node.get_rt_info()["layerType"].value == "Input"
    assert graph.get_output_size() == 2
    assert not graph.is_dynamic()


@pytest.mark.parametrize(("device", "name"), [("AUTO", "mirrored"), ("HETERO:CPU", "mirrored_0")])
def test_of_other_devices(runtime: Any, device: str, name: str) -> None:
    compiled = runtime.core.compile_model(runtime.models["relu"], device)
    assert compiled.get_runtime_model().friendly_name == name
