"""What openvino has and this version of inferwire does not, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

TOP_LEVEL = frozenset(
    {
        "Extension",
        "Op",
        "OpExtension",
        "RemoteContext",
        "RemoteTensor",
        "TensorVector",
        "VAContext",
        "VASurfaceTensor",
        "convert_model",
        "frontend",
        "op",
        "save_model",
        "serialize",
        "tensor_from_file",
    }
)
"""Names of the openvino module that programs look for and do not find here."""

MEMBERS: Mapping[str, frozenset[str]] = {
    "Model": frozenset(
        {
            "add_outputs",
            "add_parameters",
            "add_results",
            "add_sinks",
            "add_variables",
            "evaluate",
            "get_ops",
            "get_ordered_ops",
            "get_output_op",
            "get_rt_info",
            "get_sink_index",
            "get_sinks",
            "get_variable_by_id",
            "get_variables",
            "has_rt_info",
            "remove_parameter",
            "remove_result",
            "remove_sink",
            "remove_variable",
            "replace_parameter",
            "rt_info",
            "set_rt_info",
            "sinks",
            "validate_nodes_and_infer_types",
            "variables",
        }
    )
}
"""Members of openvino's objects that programs look for and do not find here."""


def refuse(member: str) -> NoReturn:
    """Refuse what openvino offers.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(f"{member} is not offered by this version of inferwire")


def missing_member(kind: str, name: str) -> AttributeError:
    """Make the error for a member that an object does not have, saying where openvino has it."""
    if name in MEMBERS.get(kind, ()):
        return AttributeError(f"openvino.{kind}.{name} is not offered by this version of inferwire")
    return AttributeError(f"'inferwire.{kind}' object has no attribute '{name}'")


def missing_attribute(module: str, name: str) -> AttributeError:
    """Make the error for a name that a module does not have, saying where openvino has it."""
    if name in TOP_LEVEL:
        return AttributeError(f"openvino.{name} is not offered by this version of inferwire")
    return AttributeError(f"module '{module}' has no attribute '{name}'")
