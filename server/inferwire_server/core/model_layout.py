"""The names under which a runtime looks for the files of an uploaded model. It touches none of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from inferwire_proto.errors import Code
from inferwire_proto.model_formats import MODEL_SUFFIXES, SAVED_MODEL, WEIGHTS_SUFFIXES
from inferwire_server.errors import ServingError, invalid_input

BLOB_SUFFIX = ".blob"
"""The ending of a compiled model."""

_MODEL = "model"
_ONNX = ".onnx"
_LONGEST_PATH = 255
_MOST_VARIABLES = 1 << 16
_VARIABLES = re.compile(r"variables/variables\.[A-Za-z0-9-]{1,64}")


class ModelLayout(NamedTuple):
    """A model's files, by their paths in a folder that has nothing else.

    Attributes:
        model: What the runtime is given: one of the files, or a folder among them.
        blobs: What the files are, by the hash of their content.
    """

    model: str
    blobs: dict[str, bytes]


def lay_out(model: bytes, weights: bytes | None, suffix: str, variables: Mapping[str, bytes]) -> ModelLayout:
    """Give a model's files the names that a runtime looks for.

    Raises:
        ServingError: INVALID_INPUT for a suffix that is none, and for variables at a path that may have none;
            TOO_LARGE for more of them than any model has.
    """
    entries = sum(1 + path.count("/") for path in variables)
    if entries > _MOST_VARIABLES:
        raise ServingError(
            Code.TOO_LARGE,
            f"the model's variables are {entries} files and folders, at most {_MOST_VARIABLES} are allowed",
        )
    _check_names(suffix, variables)
    if suffix == SAVED_MODEL:
        return ModelLayout(_MODEL, {f"{_MODEL}/{path}": blob for path, blob in {suffix: model, **variables}.items()})
    name = f"{_MODEL}{suffix}"
    blobs = {name: model, **variables}
    if weights is not None:
        blobs[f"{_MODEL}{WEIGHTS_SUFFIXES.get(suffix, '.bin')}"] = weights
    return ModelLayout(name, blobs)


def _check_names(suffix: str, variables: Mapping[str, bytes]) -> None:
    """Let only names become paths that a model's files have."""
    if suffix not in (*MODEL_SUFFIXES, SAVED_MODEL, BLOB_SUFFIX):
        known = " ".join(MODEL_SUFFIXES)
        raise invalid_input(f"the model file's ending is '{suffix}', expected one of {known}")
    for path in variables:
        is_known = _VARIABLES.fullmatch(path) if suffix == SAVED_MODEL else suffix == _ONNX and _is_beside(path)
        if not is_known or path == f"{_MODEL}{_ONNX}":
            raise invalid_input(f"a model with the ending '{suffix}' has variables at '{path}', expected none there")


def _is_beside(path: str) -> bool:
    """Whether a path leads into the folder it begins in, or below, and to nowhere else."""
    parts = path.split("/")
    is_short = len(path.encode("utf-8", "replace")) <= _LONGEST_PATH
    return is_short and path.isprintable() and not any(part in ("", ".", "..") for part in parts)
