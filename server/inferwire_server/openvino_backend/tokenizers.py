"""OpenVINO's tokenizers, an extra: the library with the operations that models of strings are made of."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_PACKAGE = "openvino_tokenizers"
_UNKNOWN = "from unsupported opset: extension"
_REMEDY = (
    "the model may be one of OpenVINO's tokenizers, whose operations this server has not: "
    "install the extra inferwire[tokenizers], or build the image with --build-arg EXTRAS=server,tokenizers"
)


def tokenizers_library() -> Path | None:
    """Find the installed library without importing the package, which changes openvino as it is imported."""
    spec = find_spec(_PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = (library for folder in folders for library in Path(folder, "lib").glob("*openvino_tokenizers.*"))
    return next(found, None)


def explained(reason: str) -> str:
    """Add the remedy to the runtime's reason where an operation is missing that the extra may have."""
    return f"{reason}; {_REMEDY}" if _UNKNOWN in reason else reason
