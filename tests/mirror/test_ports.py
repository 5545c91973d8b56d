"""Ports, results by port, and tensors made of ports, against openvino's own."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import openvino
import openvino.opset13 as ops
import pytest
from openvino.utils.data_helpers import OVDict
from tests.mirror.conftest import make_model

import inferwire
from inferwire.graph.described import PortDescription
from inferwire.graph.nodes import node_of
from inferwire.graph.ports import ConstOutput
from inferwire.requests.ov_dict import OVDict as OurResults


class Ports(NamedTuple):
    """Ports and the class that holds results by them."""

    fixed_input: Any
    dynamic_input: Any
    outputs: list[Any]
    results: Any


def make_ports(ov: Any) -> Ports:
    """Make the ports anew, so that two calls give ports of different nodes."""
    return _openvino() if ov is openvino else _inferwire()


def _openvino() -> Ports:
    fixed = ops.parameter([1, 3], np.float32, name="data")
    fixed.output(0).set_names({"data", "alias"})
    dynamic = ops.parameter([-1, 3], np.float32, name="dyn")
    outputs = [ops.relu(fixed), ops.relu(dynamic)]
    for name, output in zip(("out", "other"), outputs, strict=True):
        output.output(0).set_names({name})
    compiled = openvino.Core().compile_model(make_model(outputs, [fixed, dynamic], "model"), "CPU")
    return Ports(compiled.input(0), compiled.input(1), compiled.outputs, OVDict)


def _port(names: set[str], shape: list[int], node_name: str, node_type: str = "Parameter") -> ConstOutput:
    partial_shape = inferwire.PartialShape(shape)
    described = PortDescription(frozenset(names), inferwire.Type.f32, partial_shape, node_name, node_type, min(names))
    return ConstOutput(node_of(described))


def _inferwire() -> Ports:
    outputs = [_port({"out"}, [1, 3], "Result_1", "Result"), _port({"other"}, [-1, 3], "Result_2", "Result")]
    return Ports(_port({"data", "alias"}, [1, 3], "data"), _port({"dyn"}, [-1, 3], "dyn"), outputs, OurResults)


@pytest.fixture
def ports(ov: Any) -> Ports:
    return make_ports(ov)


def test_port_facts(ov: Any, ports: Any) -> None:
    port = ports.fixed_input
    spelled = [f"<ConstOutput: names[{names}] shape[1,3] type: f32>" for names in ("alias, data", "data, alias")]
    assert repr(port) in spelled  # openvino's order changes from run to run
    assert isinstance(port, ov.ConstOutput)
    assert port.names == port.get_names() == {"alias", "data"}
    assert port.any_name == port.get_any_name() == "alias"
    assert port.element_type == port.get_element_type() == ov.Type.f32
    assert port.partial_shape == port.get_partial_shape() == ov.PartialShape([1, 3])
    assert (port.shape, port.get_shape()) == ([1, 3], [1, 3])
    assert (port.index, port.get_index()) == (0, 0)


def test_dynamic_port(ports: Any) -> None:
    port = ports.dynamic_input
    assert repr(port) == "<ConstOutput: names[dyn] shape[?,3] type: f32>"
    for use in (lambda: port.shape, port.get_shape):
        with pytest.raises(RuntimeError, match=r"to_shape was called on a dynamic shape."):
            use()


def test_port_equality(ov: Any, ports: Any) -> None:
    port, other = ports.fixed_input, make_ports(ov).fixed_input
    assert copy.copy(port) == port
    assert copy.copy(port) is not port
    assert hash(copy.copy(port)) == hash(port)
    assert port != other
    assert port != ports.dynamic_input
    assert port != "data"
    assert (port < port, port <= port, port >= port) == (False, True, True)
    assert (port < other) is not (other < port)
    with pytest.raises(TypeError, match="not supported between"):
        assert port < 3


def test_port_is_not_copied(ports: Any) -> None:
    with pytest.raises(TypeError, match=r"Cannot deepcopy 'openvino.ConstOutput' object."):
        copy.deepcopy(ports.fixed_input)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(ports.fixed_input)


def test_port_attributes(ports: Any) -> None:
    port = ports.fixed_input
    port.spare = 1
    assert port.spare == 1
    for name in ("names", "shape", "any_name", "node"):
        with pytest.raises(AttributeError):
            setattr(port, name, 1)


def test_node(ov: Any, ports: Any) -> None:
    node = ports.fixed_input.node
    assert isinstance(node, ov.Node)
    assert node is ports.fixed_input.get_node()
    assert (node.friendly_name, node.get_friendly_name(), node.get_type_name()) == ("data", "data", "Parameter")
    assert ports.outputs[0].node.get_type_name() == "Result"
    assert node.get_name() == node.name
    assert (node.get_output_size(), node.get_element_type()) == (1, ov.Type.f32)
    node.friendly_name = "mine"
    assert ports.fixed_input.node.friendly_name == "mine"
    node.set_friendly_name("yours")
    assert repr(node) == "<Parameter: 'yours' ([1,3], float)>"


def test_results_by_key(ports: Any) -> None:
    first, second = np.zeros(1), np.zeros(2)
    results = ports.results(dict(zip(ports.outputs, (first, second), strict=True)))
    assert results[0] is results[-2] is results["out"] is results[ports.outputs[0]] is first
    assert results[1] is results[-1] is results[True] is results["other"] is second
    assert results.get("out") is first
    assert results.get("zz", 3) == 3
    for key in (2, -3, "zz", ports.fixed_input):
        with pytest.raises(KeyError):
            results[key]
        assert key not in results
    for key in (1.5, np.int64(0), None, (0,)):
        with pytest.raises(TypeError, match=f"Unknown key type: {type(key)}"):
            results[key]


def test_results_are_a_mapping(ports: Any) -> None:
    inner = dict(zip(ports.outputs, (1, 2), strict=True))
    results = ports.results(inner)
    assert issubclass(type(results), Mapping)
    assert not issubclass(type(results), dict)
    assert (len(results), list(results), list(results.keys())) == (2, ports.outputs, ports.outputs)
    assert (list(results.values()), list(results.items())) == ([1, 2], list(inner.items()))
    assert (results.names(), results.to_tuple()) == (({"out"}, {"other"}), (1, 2))
    assert results.to_dict() is inner
    assert results == inner
    assert results == ports.results(dict(inner))
    assert repr(results) == repr(inner)
    assert 0 in results
    assert "out" in results
    assert ports.outputs[0] in results


def test_results_refuse(ports: Any) -> None:
    results = ports.results(dict(zip(ports.outputs, (1, 2), strict=True)))
    with pytest.raises(TypeError, match="does not support item assignment"):
        results[0] = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(results)
    with pytest.raises(TypeError, match=r"Cannot deepcopy 'openvino.ConstOutput' object."):
        copy.deepcopy(results)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(results)
    assert copy.copy(results) == results


def test_tensor_of_port(ov: Any, ports: Any) -> None:
    assert repr(ov.Tensor(ports.fixed_input)) == "<Tensor: shape[1,3] type: f32>"
    assert ov.Tensor(port=ports.dynamic_input).shape == [0]
    array = np.arange(3, dtype=np.float32)
    tensor = ov.Tensor(ports.fixed_input, array)
    assert tensor.shape == [1, 3]
    assert np.shares_memory(tensor.data, array)
    with pytest.raises(TypeError, match="Cannot interpret '<ConstOutput:"):
        ov.Tensor(ports.fixed_input, [1, 2, 3])


def test_tensor_of_port_and_unlike_array(ov: Any, ports: Any) -> None:
    with pytest.warns(
        RuntimeWarning, match="Type of the array and the port are different. Data is going to be casted."
    ) as raised:
        tensor = ov.Tensor(ports.fixed_input, np.array([1, 2, 3], np.int32))
    assert raised[0].filename == __file__
    assert tensor.data.view(np.int32).tolist() == [[1, 2, 3]]
    with pytest.warns(RuntimeWarning, match="Shape of the port is smaller than shape of the array."):
        tensor = ov.Tensor(ports.fixed_input, np.arange(6, dtype=np.float32))
    assert tensor.data.tolist() == [[0, 1, 2]]
    with pytest.raises(RuntimeError, match=r"Shape of the port exceeds shape of the array."):
        ov.Tensor(ports.fixed_input, np.zeros(2, np.float32))
    with pytest.raises(RuntimeError, match=r"String types can be only copied."):
        ov.Tensor(ports.fixed_input, np.array(["a"]))
    with pytest.raises(RuntimeError, match="must be C contiguous"):
        ov.Tensor(ports.fixed_input, np.zeros((3, 2), np.float32)[:, :1])


def test_what_of_an_array_does_not_count_for_a_port_is_not_warned_of(ov: Any, ports: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ov.Tensor(ports.dynamic_input, np.zeros((2, 3), np.float32)).shape == [0]
        with pytest.raises(RuntimeError, match="must be C contiguous"):
            ov.Tensor(ports.fixed_input, np.zeros((4, 3), np.float64)[::2])
        with pytest.raises(TypeError, match="incompatible constructor arguments"):
            ov.Tensor(ports.fixed_input, None)
