"""Models of an openvino that happens to be installed beside the client.

The only module of the client that imports openvino, and only once it is handed one of its objects.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from inferwire.arguments import openvino_class
from inferwire.models.model_files import ModelFiles, read_files


def serialized(model: Any) -> ModelFiles | None:
    """Give an `openvino.Model` as IR; None for anything else."""
    if openvino_class(model) != "Model":
        return None
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "model.xml"
        openvino.save_model(model, xml, compress_to_fp16=False)
        return read_files(xml.read_bytes(), xml.with_suffix(".bin").read_bytes())
