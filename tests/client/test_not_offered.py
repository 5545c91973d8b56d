"""What is not there yet says so, by the name a program looked for."""

from __future__ import annotations

import rlcompleter
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

import inferwire
from inferwire.graph.described import PortDescription
from inferwire.graph.nodes import node_of
from inferwire.models.graph_nodes import DescribedNode
from inferwire.models.runtime_model import ExecutionParameter
from inferwire.not_offered import sentence
from inferwire.transport.descriptions import GraphNode


@pytest.mark.parametrize("name", ["convert_model", "save_model", "serialize"])
def test_a_function_that_is_not_there_yet_can_be_imported_and_not_called(name: str) -> None:
    function = getattr(inferwire, name)
    with pytest.raises(RuntimeError, match=rf"openvino\.{name}\(\) is not offered by inferwire"):
        function("model.pt", output_model="model.xml")


def test_a_graph_is_not_built_here() -> None:
    for arguments in ((), ([], [], "x")):
        with pytest.raises(
            RuntimeError, match=r"building a graph with openvino\.Model\(\) is not offered by inferwire"
        ):
            inferwire.Model(*arguments)


def test_a_node_that_is_no_port_s_tells_what_it_was_made_with_where_the_server_does() -> None:
    port = PortDescription(frozenset(), inferwire.Type.f32, inferwire.PartialShape([2]), "halves", "Split", "")
    told_nothing, of_no_graph = (
        DescribedNode(GraphNode(port, {}, 2, (port, port))),
        node_of(replace(port, node_type="Assign")),
    )
    for node, why in ((told_nothing, "by a server older than this client"), (of_no_graph, "of a node that is neither")):
        with pytest.raises(RuntimeError, match=rf"get_attributes\(\) {why}.* is not offered by inferwire"):
            node.get_attributes()
        for name in ("input_value", "rt_info"):
            with pytest.raises(AttributeError, match=f"openvino.Node.{name} is not offered by inferwire"):
                getattr(node, name)


def test_a_result_whose_server_tells_no_source_says_that_it_is_an_older_one() -> None:
    port = PortDescription(frozenset(), inferwire.Type.f32, inferwire.PartialShape([2]), "out", "Result", "")
    with pytest.raises(RuntimeError, match=r"get_source_output\(\) by a server older than this client is not offered"):
        node_of(port).input(0).get_source_output()


def test_what_has_no_names_of_its_own_says_so(transport: Any) -> None:
    core = inferwire.Core(transport=transport)
    compiled = core.compile_model(b"<net/>", "CPU")
    for name in (compiled.input(0).tensor.set_names, compiled.output(0).get_tensor().add_names):
        with pytest.raises(RuntimeError, match="naming inputs and outputs of a compiled model is not offered"):
            name({"x"})
    port = PortDescription(frozenset(), inferwire.Type.f32, inferwire.PartialShape([2]), "halves", "Split", "")
    inner = DescribedNode(GraphNode(port, {}, 2, (port, port))).output(1)
    of_device = ExecutionParameter(GraphNode(port, {}, 0, (port,))).output(0)
    for name in (inner.set_names, inner.tensor.add_names, of_device.set_names):
        with pytest.raises(RuntimeError, match=r"naming an output of a node that is neither .* is not offered"):
            name({"x"})


def test_completion_lists_what_programs_use_and_not_the_modules_it_is_made_of() -> None:
    completed = rlcompleter.Completer({"ov": inferwire})
    assert completed.complete("ov.AsyncI", 0) == "ov.AsyncInferQueue("
    modules = {name for name, value in vars(inferwire).items() if isinstance(value, ModuleType)}
    assert {"core", "requests", "transport"} < modules
    assert modules & set(dir(inferwire)) == modules & set(inferwire.__all__)


def test_the_version_is_where_programs_look_for_it() -> None:
    assert inferwire.__version__ == inferwire.get_version()


def test_what_python_looks_for_in_a_module_of_operations_is_not_there() -> None:
    from inferwire import opset13  # pyright: ignore[reportAttributeAccessIssue]

    with pytest.raises(AttributeError, match=r"^module 'inferwire\.opset13' has no attribute '__wrapped__'$"):
        _ = opset13.__wrapped__


@pytest.mark.parametrize(
    ("member", "instead"),
    [
        (
            "openvino.save_model()",
            "pass the original file to read_model() or compile_model(), or write IR with openvino",
        ),
        (
            "openvino.convert_model()",
            (
                "pass the original file to read_model() or compile_model(), or convert with openvino beside inferwire: "
                "compile_model() takes its models too"
            ),
        ),
        ("openvino.torch", "pass the original file to read_model() or compile_model(), or convert with openvino"),
        ("openvino.Model.evaluate", "compile the model and infer"),
        ("openvino.Model.add_results", "build or change the graph with openvino"),
        ("openvino.Core.register_plugin", "plugins are the server's"),
    ],
)
def test_what_to_do_instead_is_said(member: str, instead: str) -> None:
    assert sentence(member).startswith(f"{member} is not offered by inferwire: {instead}")


def test_where_there_is_no_answer_none_is_given() -> None:
    assert sentence("openvino.VAContext") == "openvino.VAContext is not offered by inferwire"
