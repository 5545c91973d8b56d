"""What is recorded on OpenVINO's PrePostProcessor: the one table of its calls, and how a call travels.

A recording is the calls themselves, in their order: what they mean, and which of them do not go together, OpenVINO
alone says as it builds them into a model. Knows neither side's models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferwire_proto.properties import PropertyValue

COLOR_FORMAT = "preprocess.ColorFormat"
RESIZE_ALGORITHM = "preprocess.ResizeAlgorithm"
PADDING_MODE = "preprocess.PaddingMode"

METHODS: Mapping[tuple[str, str], frozenset[str]] = {
    ("input", "tensor"): frozenset(
        {
            "set_color_format",
            "set_element_type",
            "set_layout",
            "set_memory_type",
            "set_shape",
            "set_spatial_dynamic_shape",
            "set_spatial_static_shape",
        }
    ),
    ("input", "preprocess"): frozenset(
        {
            "convert_color",
            "convert_element_type",
            "convert_layout",
            "crop",
            "mean",
            "pad",
            "resize",
            "reverse_channels",
            "scale",
        }
    ),
    ("input", "model"): frozenset({"set_layout"}),
    ("output", "postprocess"): frozenset({"convert_element_type", "convert_layout"}),
    ("output", "tensor"): frozenset({"set_element_type", "set_layout"}),
    ("output", "model"): frozenset({"set_layout"}),
}
"""The calls there are, by the kind of port and the part of it that they are made on."""


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call: `PrePostProcessor.input(port).tensor().set_layout("NHWC")`.

    Attributes:
        kind: "input" or "output".
        port: The port's name or its position; None for the only one.
        part: "tensor", "preprocess", "postprocess" or "model".
        method: The call's name.
        arguments: Its arguments in order; layouts and shapes as OpenVINO writes them.
    """

    kind: str
    port: str | int | None
    part: str
    method: str
    arguments: tuple[PropertyValue, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a call that is not in the table."""
        if self.method not in METHODS.get((self.kind, self.part), ()):
            raise ValueError(f"{self.kind}().{self.part}().{self.method}() is no call of PrePostProcessor")
