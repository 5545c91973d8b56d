"""What openvino has and this version of inferwire does not, and the sentence that says so."""

from __future__ import annotations

from typing import NoReturn

MODULES = frozenset(
    {
        "experimental",
        "frontend",
        "layout_helpers",
        "op",
        *(f"opset{number}" for number in range(1, 18)),
        "package_utils",
        "passes",
        "preprocess",
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
        "Input",
        "Op",
        "OpExtension",
        "ProfilingInfo",
        "RTMap",
        "RemoteContext",
        "RemoteTensor",
        "VAContext",
        "VASurfaceTensor",
        "convert_model",
        "get_batch",
        "save_model",
        "serialize",
        "set_batch",
    }
)
"""Other names of the openvino module that programs look for and do not find here."""


def sentence(member: str) -> str:
    """Say that a member is not offered."""
    return f"{member} is not offered by this version of inferwire"


def refuse(member: str) -> NoReturn:
    """Refuse what openvino offers.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(sentence(member))


def missing_attribute(module: str, name: str) -> AttributeError:
    """Make the error for a name that a module does not have, saying where openvino has it."""
    if name in TOP_LEVEL | MODULES:
        return AttributeError(sentence(f"openvino.{name}"))
    return AttributeError(f"module '{module}' has no attribute '{name}'")
