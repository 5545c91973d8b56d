"""The graph that a device runs is looked at as openvino's."""

from __future__ import annotations

from typing import Any

import pytest


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
        assert info["runtimePrecision"].value == node.rt_info["runtimePrecision"].astype(str) == "f32"
    run = nodes[kinds.index("ExecutionNode")]
    assert (run.get_input_size(), run.get_output_size()) == (2, 1)
    assert str(run.get_output_partial_shape(0)) == "[1,3]"
    assert list(run.get_output_shape(0)) == [1, 3]
    assert run.get_output_element_type(0).get_type_name() == "f32"


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
