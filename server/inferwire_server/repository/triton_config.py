"""Triton's `config.pbtxt` beside a model's versions, as it lies there."""

from __future__ import annotations

from pathlib import Path

from inferwire_proto.errors import Code
from inferwire_proto.host.bounded_files import read_text, why_not_read
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.config_file import FileConfig, read_config_file

CONFIG_NAME = "config.pbtxt"


def read_triton_config(file: Path, name: str | None) -> FileConfig:
    """Read the file of the model of this name; with None, the file may give its model any name.

    Raises:
        ServingError: MODEL_FAILED if it cannot be read, or says what is not offered here.
    """
    source = f"{file.parent.name}/{file.name}"
    try:
        text = read_text(file, is_read_again=True)
    except OSError as error:
        raise ServingError(Code.MODEL_FAILED, f"{source} cannot be read: {why_not_read(error)}") from error
    return read_config_file(text, name, source)
