"""What the operator has done to one input before the model: its table in `inferwire.toml`, read and recorded.

Pictures come as pixels or, where the setting says so, as encoded files. Nothing here opens the model or a picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from inferwire_proto.element_types import BY_NAME, ElementType
from inferwire_proto.preprocessing import COLOR_FORMAT, RESIZE_ALGORITHM, Call
from inferwire_proto.properties import EnumValue, PropertyValue
from inferwire_server.core.model_options import Pictures, Preprocessing
from inferwire_server.repository.setting_values import (
    UnfitValue,
    choice,
    is_number,
    items,
    one_of,
    switch,
    text,
    whole,
)

COLORS = ("RGB", "BGR", "RGBX", "BGRX", "GRAY", "NV12_SINGLE_PLANE", "I420_SINGLE_PLANE")
RESIZES = ("linear", "cubic", "nearest", "bilinear_pillow", "bicubic_pillow")
"""OpenVINO's algorithms; those of Pillow smooth what they make smaller."""

DECODER_RESIZES = ("nearest", "bilinear_pillow", "bicubic_pillow")
"""The algorithms that encoded pictures are resized with as they are decoded."""

LARGEST_F32 = 3.4028234663852886e38
LEAST_F32 = 1.1754943508222875e-38
"""The least f32 that is more than 0, and that nothing takes for 0."""

MEAN = "a finite number that f32 holds"
SCALE = f"{MEAN}, other than 0"

_DECODED: Mapping[str, Any] = {"element_type": BY_NAME["u8"], "layout": "NHWC", "color": "RGB"}
"""What a decoded picture is."""


@dataclass(frozen=True, slots=True)
class InputPreprocessing:
    """What is done to one input; nothing where a value is None. In this order: colour, size, mean, scale, layout.

    Attributes:
        encoded: Whether callers send JPEG or PNG files, one for each picture of the batch.
        max_pixels: The most pixels that an encoded picture may have.
        element_type: What callers send.
        layout: What callers send, as "NHWC".
        color: What callers send.
        model_layout: What the model takes, where the model does not say.
        model_color: What the model takes.
        resize: How pictures are made as large as the model takes them; callers then send them in any size.
        mean: What is subtracted: one number, or one for each of the model's channels.
        scale: What the rest is divided by, likewise.
    """

    encoded: bool = False
    max_pixels: int | None = None
    element_type: ElementType | None = None
    layout: str | None = None
    color: str | None = None
    model_layout: str | None = None
    model_color: str | None = None
    resize: str | None = None
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None

    @property
    def pictures(self) -> Pictures | None:
        """How encoded pictures are decoded; None where callers send pixels."""
        if not self.encoded:
            return None
        return Pictures(self.resize) if self.max_pixels is None else Pictures(self.resize, self.max_pixels)

    def recorded(self, name: str) -> Preprocessing:
        """Record it for the input of this name, or for the only one where the name is empty."""
        calls = (*self._tensor_calls(), *self._model_calls(), *self._steps())
        recorded = tuple(Call("input", name or None, part, method, arguments) for part, method, arguments in calls)
        return Preprocessing(recorded, setting=("preprocessing", name) if name else ("preprocessing",))

    def _tensor_calls(self) -> Iterator[_PartCall]:
        if self.element_type:
            yield "tensor", "set_element_type", (self.element_type,)
        if self.layout:
            yield "tensor", "set_layout", (self.layout,)
        if self.color:
            yield "tensor", "set_color_format", (EnumValue(COLOR_FORMAT, self.color),)
        if self.resize and not self.encoded:
            yield "tensor", "set_spatial_dynamic_shape", ()

    def _model_calls(self) -> Iterator[_PartCall]:
        if self.model_layout:
            yield "model", "set_layout", (self.model_layout,)

    def _steps(self) -> Iterator[_PartCall]:
        if self.resize or self.mean or self.scale:
            # Whole numbers would be rounded at each step, and have no mean.
            yield "preprocess", "convert_element_type", (BY_NAME["f32"],)
        if self.model_color and self.model_color != self.color:
            yield "preprocess", "convert_color", (EnumValue(COLOR_FORMAT, self.model_color),)
        if self.resize and not self.encoded:
            yield "preprocess", "resize", (EnumValue(RESIZE_ALGORITHM, f"RESIZE_{self.resize.upper()}"),)
        if self.mean:
            yield "preprocess", "mean", (_numbers(self.mean),)
        if self.scale:
            yield "preprocess", "scale", (_numbers(self.scale),)


_PartCall = tuple[str, str, tuple[PropertyValue, ...]]


def read_input_preprocessing(value: object) -> InputPreprocessing:
    """Read one input's table.

    Raises:
        UnfitValue: For what is no table, an unknown setting, or one that does not go with the others.
    """
    if not isinstance(value, dict):
        raise UnfitValue(value, "a table of settings")
    table = cast("dict[str, object]", value)
    for name in table:
        if name not in _READERS:
            raise UnfitValue(table[name], f"no such setting: there are {', '.join(_READERS)}", name)
    found = items(table, lambda name, item: _READERS[name](item))
    if not found.get("encoded", False):
        if "max_pixels" in found:
            raise UnfitValue(found["max_pixels"], "it only beside encoded = true", "max_pixels")
        return InputPreprocessing(**found)
    _check_encoded(table, found)
    return InputPreprocessing(**{**_DECODED, **found})


def _check_encoded(table: Mapping[str, object], found: Mapping[str, Any]) -> None:
    for name in _DECODED:
        if name in table:
            raise UnfitValue(table[name], "none: encoded pictures are decoded to u8, NHWC and RGB", name)
    if found.get("resize", DECODER_RESIZES[0]) not in DECODER_RESIZES:
        raise UnfitValue(found["resize"], f"{one_of(DECODER_RESIZES)} for encoded pictures", "resize")


def _element_type(value: object) -> ElementType:
    if not isinstance(value, str) or value not in BY_NAME:
        raise UnfitValue(value, "an element type such as u8 or f32")
    return BY_NAME[value]


def is_mean(value: object) -> bool:
    """Tell whether it can be subtracted from what pixels become: an f32."""
    return is_number(value, -LARGEST_F32, LARGEST_F32)


def is_scale(value: object) -> bool:
    """Tell whether what pixels become, an f32, can be divided by it."""
    return is_number(value, LEAST_F32, LARGEST_F32) or is_number(value, -LARGEST_F32, -LEAST_F32)


def _per_channel(fits: Callable[[object], bool], expected: str) -> Callable[[object], tuple[float, ...]]:
    def read(value: object) -> tuple[float, ...]:
        numbers = cast("list[object]", value) if isinstance(value, list) else [value]
        if not numbers or not all(map(fits, numbers)):
            raise UnfitValue(cast("object", value), f"{expected}, or a list with one for each channel")
        return tuple(float(cast("float", each)) for each in numbers)

    return read


def _numbers(values: tuple[float, ...]) -> PropertyValue:
    return values[0] if len(values) == 1 else list(values)


_READERS: Mapping[str, Callable[[object], Any]] = {
    "encoded": switch,
    "max_pixels": lambda value: whole(value, 1),
    "element_type": _element_type,
    "layout": lambda value: text(value, "a layout such as NHWC"),
    "color": choice(*COLORS),
    "model_layout": lambda value: text(value, "a layout such as NCHW"),
    "model_color": choice(*COLORS),
    "resize": choice(*RESIZES),
    "mean": _per_channel(is_mean, MEAN),
    "scale": _per_channel(is_scale, SCALE),
}
"""The settings there are, and how each is read."""
