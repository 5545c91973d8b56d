"""What openvino has and inferwire does not, and the sentence that says so and tells what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

OPERATIONS = frozenset({"op", *(f"opset{number}" for number in range(1, 18))})
"""Modules of openvino with the operations that graphs are made of. Programs import them for few of their code paths."""

MODULES = OPERATIONS | frozenset(
    {
        "_offline_transformations",
        "experimental",
        "frontend",
        "package_utils",
        "passes",
        "tools",
        "torch",
    }
)
"""Modules of openvino that programs import and do not find here: most of them build and change graphs."""

TOP_LEVEL = frozenset(
    {
        "AxisSet",
        "AxisVector",
        "CoordinateDiff",
        "DiscreteTypeInfo",
        "Extension",
        "Op",
        "OpExtension",
        "RTMap",
        "VAContext",
        "VASurfaceTensor",
    }
)
"""Other names of the openvino module that programs look for and do not find here."""


_FILE = "pass the original file to read_model() or compile_model(), or write IR with openvino"
_CONVERTED = (
    "pass the original file to read_model() or compile_model(), or convert with openvino beside inferwire: "
    "compile_model() takes its models too"
)
_GRAPH = "build or change the graph with openvino, save it as IR, and pass that file to read_model() or compile_model()"
_INNER = "the graph is on the server; look at it or change it with openvino, save it, and give read_model() that file"
_OF_GRAPHS = ("_offline_transformations", "passes", "utils.node_factory", "utils.types")
_LIBRARY = "the server's operator loads a library of operations with --extension"
_PLUGINS = "plugins are the server's, and its operator's to install"

_INSTEAD: Mapping[str, str] = {
    **{f"openvino.{name}": _CONVERTED for name in ("convert_model()", "torch")},
    "openvino.save_model()": _FILE,
    "openvino.serialize()": _FILE,
    "building a graph with openvino.Model()": _GRAPH,
    **{f"openvino.{name}": _GRAPH for name in (*OPERATIONS, *_OF_GRAPHS, "Model", "Parameter")},
    **{f"openvino.{name}": _INNER for name in ("ConstOutput", "Constant", "Input", "Node", "Output")},
    "openvino.frontend": _FILE,
    "openvino.tools": _FILE,
    "openvino.tools.benchmark": "install openvino beside inferwire, and its benchmark_app runs with inferwire",
    "openvino.Model.evaluate": "compile the model and infer",
    **{f"openvino.{name}": _LIBRARY for name in ("Extension", "Op", "OpExtension")},
    "add_extension() of operations written in Python": _LIBRARY,
    **{f"openvino.Core.{name}": _PLUGINS for name in ("register_plugin", "register_plugins", "unload_plugin")},
}
"""What to do instead, by the name of what is not offered or of what it belongs to."""


def refuse_all_of(module: ModuleType, known_as: str) -> None:
    """Have a module say of any name that a program looks for in it that it is not offered."""

    def refuse_attribute(attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(f"module '{module.__name__}' has no attribute '{attribute}'")
        raise AttributeError(sentence(f"{known_as}.{attribute}"))

    module.__getattr__ = refuse_attribute  # pyright: ignore[reportAttributeAccessIssue]


def sentence(member: str) -> str:
    """Say that a member is not offered, and what to do instead if there is an answer."""
    known = [member, *(member.rsplit(".", cut)[0] for cut in range(1, member.count(".") + 1))]
    instead = next((_INSTEAD[each] for each in known if each in _INSTEAD), "")
    return f"{member} is not offered by inferwire" + (f": {instead}" if instead else "")


def refuse(member: str) -> NoReturn:
    """Refuse a member that openvino offers.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(sentence(member))


def missing_member(kind: str, name: str) -> AttributeError:
    """Make the error for a member that an object does not have, saying where openvino has it."""
    if name in MEMBERS.get(kind, ()):
        return AttributeError(sentence(f"openvino.{kind}.{name}"))
    return AttributeError(f"'inferwire.{kind}' object has no attribute '{name}'")


def missing_attribute(module: str, name: str) -> AttributeError:
    """Make the error for a name that a module does not have, saying where openvino has it."""
    if name in TOP_LEVEL | MODULES:
        return AttributeError(sentence(f"openvino.{name}"))
    return AttributeError(f"module '{module}' has no attribute '{name}'")


_OF_PORTS = frozenset({"get_rt_info", "get_target_inputs", "rt_info", "target_inputs"})

MEMBERS: Mapping[str, frozenset[str]] = {
    "Core": frozenset({"register_plugin", "register_plugins", "unload_plugin"}),
    "Model": frozenset(
        {
            "add_parameters",
            "add_results",
            "add_sinks",
            "add_variables",
            "evaluate",
            "get_output_op",
            "get_variable_by_id",
            "get_variables",
            "remove_parameter",
            "remove_result",
            "remove_sink",
            "remove_variable",
            "replace_parameter",
            "validate_nodes_and_infer_types",
            "variables",
        }
    ),
    "Node": frozenset(
        {
            "constructor_validate_and_infer_types",
            "evaluate",
            "get_input_element_type",
            "get_input_partial_shape",
            "get_input_shape",
            "get_input_tensor",
            "get_instance_id",
            "get_rt_info",
            "get_type_info",
            "input_value",
            "input_values",
            "rt_info",
            "set_argument",
            "set_arguments",
            "set_attribute",
            "set_output_size",
            "set_output_type",
            "set_rt_info",
            "type_info",
            "validate_and_infer_types",
            "visit_attributes",
        }
    ),
    "Parameter": frozenset({"set_element_type", "set_partial_shape"}),
    "ConstOutput": _OF_PORTS,
    "Constant": frozenset(
        {
            "data",
            "get_byte_size",
            "get_data",
            "get_strides",
            "get_tensor_view",
            "get_value_strings",
            "get_vector",
            "strides",
            "tensor_view",
        }
    ),
    "DescriptorTensor": frozenset(
        {
            "get_lower_value",
            "get_rt_info",
            "get_upper_value",
            "get_value_symbol",
            "rt_info",
            "set_lower_value",
            "set_upper_value",
            "set_value_symbol",
        }
    ),
    "Input": frozenset({"get_rt_info", "get_tensor", "replace_source_output", "rt_info", "set_rt_info"}),
    "Output": _OF_PORTS | {"remove_target_input", "replace", "set_rt_info"},
}
"""Members of openvino's classes that lead into the graph or the runtime, which are the server's."""


class PartlyMirrored:
    """A mirror of a class of openvino without some of its members, each of which says so when it is looked for.

    If its name is not that of openvino's class, `_mirrors` has that name.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker is to complain of unknown attributes

        def __getattr__(self, name: str) -> NoReturn:
            kinds = [vars(each).get("_mirrors", each.__name__) for each in type(self).__mro__]
            raise missing_member(next((kind for kind in kinds if name in MEMBERS.get(kind, ())), kinds[0]), name)
