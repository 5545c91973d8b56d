"""Models of openvino itself, which may be installed beside the client.

The only module of the client that imports openvino, and only when it is given one of openvino's models.
"""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from inferwire.arguments import openvino_class
from inferwire.models.model_files import ModelFiles, read_files


class LocalModel(Protocol):
    """What a type checker knows an `openvino.Model` by, because openvino need not be installed."""

    def clone(self) -> Any:
        """Give a model like this one."""

    def __enter__(self) -> Any: ...


ModelFile: TypeAlias = str | os.PathLike[str] | bytes | io.BytesIO | LocalModel
"""What a model is read from: a path, the content of a file, XML as text, or a model of an installed openvino."""


def serialized(model: Any) -> ModelFiles | None:
    """Give an `openvino.Model` as IR; None for anything else."""
    if openvino_class(model) != "Model":
        return None
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "model.xml"
        openvino.save_model(model, xml, compress_to_fp16=False)
        return read_files(xml.read_bytes(), xml.with_suffix(".bin").read_bytes())
