"""What openvino has and this version of inferwire does not, and the sentence that says so."""

from __future__ import annotations

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
        "preprocess",
        "save_model",
        "serialize",
        "tensor_from_file",
    }
)
"""Names of the openvino module that programs look for and do not find here."""


def refuse(member: str) -> NoReturn:
    """Refuse what openvino offers.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(f"{member} is not offered by this version of inferwire")


def missing_attribute(module: str, name: str) -> AttributeError:
    """Make the error for a name that a module does not have, saying where openvino has it."""
    if name in TOP_LEVEL:
        return AttributeError(f"openvino.{name} is not offered by this version of inferwire")
    return AttributeError(f"module '{module}' has no attribute '{name}'")
