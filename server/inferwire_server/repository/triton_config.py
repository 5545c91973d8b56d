"""Triton's `config.pbtxt` beside a model's versions, as a layer of the model's settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from inferwire_proto.errors import Code
from inferwire_server.core.stated_ports import StatedPorts
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.config_file import read_config_file
from inferwire_server.repository.setting_layers import Layer

CONFIG_NAME = "config.pbtxt"


@dataclass(frozen=True, slots=True)
class TritonConfig:
    """What the file says.

    Attributes:
        layer: The settings, as an `inferwire.toml` would say them.
        stated: What the model takes and gives.
        unused: The fields that say something and change nothing here.
    """

    layer: Layer
    stated: StatedPorts
    unused: tuple[str, ...]


def read_triton_config(file: Path, name: str | None) -> TritonConfig:
    """Read the file of the model of this name, or of one that it may call what it likes.

    Raises:
        ServingError: MODEL_FAILED if it cannot be read, or says what is not offered here.
    """
    source = f"{file.parent.name}/{file.name}"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ServingError(Code.MODEL_FAILED, f"{source} cannot be read: {error}") from error
    found = read_config_file(text, name, source)
    return TritonConfig(Layer(source, found.options.settings()), found.stated, found.unused)
