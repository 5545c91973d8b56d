"""The steps before a model: `PreProcessSteps`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, SupportsFloat, SupportsIndex

from inferwire.arguments import as_size
from inferwire.preprocess.choices import ColorFormat, PaddingMode, ResizeAlgorithm
from inferwire.preprocess.recording import ConvertingPart, as_integers, as_numbers, member
from inferwire_proto.preprocessing import COLOR_FORMAT, PADDING_MODE, RESIZE_ALGORITHM

_VALUES = ("value: float", "values: Sequence[float]")


class PreProcessSteps(ConvertingPart):
    """Steps from the given tensor to the model's input, in order. Mirrors `openvino.preprocess.PreProcessSteps`.

    Differs from OpenVINO: no `custom`.
    """

    kind = "input"
    part = "preprocess"

    def mean(
        self, value: SupportsFloat | Iterable[float] | None = None, *, values: Iterable[float] | None = None
    ) -> Self:
        """Subtract a number, or one from each channel. Mirrors `openvino.preprocess.PreProcessSteps.mean`.

        Elements have to be floating-point numbers at this step (see `convert_element_type`), or `build` refuses.

        Args:
            value: The number, in the unit of the elements: pixels are 0 to 255 unless they were scaled before.
            values: One number for each channel: as many as the length of the dimension that the layout calls C.

        Raises:
            TypeError: For what is neither.
        """
        return self._per_channel("mean", value if values is None else values)

    def scale(
        self, value: SupportsFloat | Iterable[float] | None = None, *, values: Iterable[float] | None = None
    ) -> Self:
        """Divide by a number, or each channel by one. Mirrors `openvino.preprocess.PreProcessSteps.scale`.

        Args:
            value: The number, as in `mean`.
            values: One number for each channel: as many as the length of the dimension that the layout calls C.

        Raises:
            TypeError: For what is neither.
        """
        return self._per_channel("scale", value if values is None else values)

    def convert_color(self, dst_format: ColorFormat) -> Self:
        """Convert to another colour format. Mirrors `openvino.preprocess.PreProcessSteps.convert_color`.

        Args:
            dst_format: The wanted format; the present one is that of `InputTensorInfo.set_color_format`.

        Raises:
            TypeError: For what is no format.
        """
        color = member(dst_format, ColorFormat, COLOR_FORMAT)
        self._fit("convert_color", "dst_format: ColorFormat", (dst_format,), color)
        return self._record("convert_color", color)

    def reverse_channels(self) -> Self:
        """Reverse the order of the channels, as from RGB to BGR.

        Mirrors `openvino.preprocess.PreProcessSteps.reverse_channels`.
        """
        return self._record("reverse_channels")

    def resize(
        self, alg: ResizeAlgorithm, dst_height: SupportsIndex | None = None, dst_width: SupportsIndex | None = None
    ) -> Self:
        """Resize pictures, to the model's height and width unless others are given.

        Mirrors `openvino.preprocess.PreProcessSteps.resize`. Layouts say which dimensions are H and W.

        Args:
            alg: How new pixels are computed from the old ones.
            dst_height: The new height, in pixels.
            dst_width: The new width, in pixels.

        Raises:
            TypeError: For what is no algorithm or no size.
        """
        algorithm = member(alg, ResizeAlgorithm, RESIZE_ALGORITHM)
        signatures = ("alg: ResizeAlgorithm, dst_height: int, dst_width: int", "alg: ResizeAlgorithm")
        if dst_height is None and dst_width is None:
            self._fit("resize", signatures, (alg,), algorithm)
            return self._record("resize", algorithm)
        height, width = as_size(dst_height), as_size(dst_width)
        self._fit("resize", signatures, (alg, dst_height, dst_width), algorithm, height, width)
        return self._record("resize", algorithm, height, width)

    def crop(self, begin: Iterable[SupportsIndex], end: Iterable[SupportsIndex]) -> Self:
        """Cut out the box between two corners. Mirrors `openvino.preprocess.PreProcessSteps.crop`.

        Each corner has a position, in elements, for each dimension of the tensor, in the order of its shape; negative
        positions count from the end.

        Example:
            >>> steps.crop([0, 10, 20, 0], [1, 234, 244, 3])  # 224 x 224 of a picture in NHWC

        Args:
            begin: The first positions in the box.
            end: The first positions behind the box.

        Raises:
            TypeError: For what are no positions.
            RuntimeError: For corners of different ranks.
        """
        first, last = as_integers(begin), as_integers(end)
        self._fit("crop", "begin: Sequence[int], end: Sequence[int]", (begin, end), first, last)
        first, last = first or [], last or []
        if len(first) != len(last):
            raise RuntimeError(
                f"Crop ({_listed(first)},{_listed(last)}) begin/end coordinates must have the same size. "
                f"Begin size={len(first)}, end size={len(last)}"
            )
        return self._record("crop", first, last)

    def pad(
        self,
        pads_begin: Iterable[SupportsIndex],
        pads_end: Iterable[SupportsIndex],
        value: SupportsFloat | Iterable[float],
        mode: PaddingMode,
    ) -> Self:
        """Put a border around the tensor. Mirrors `openvino.preprocess.PreProcessSteps.pad`.

        Example:
            >>> steps.pad([0, 8, 8, 0], [0, 8, 8, 0], 0.0, PaddingMode.CONSTANT)  # of a picture in NHWC

        Args:
            pads_begin: How many elements to add before the first, for each dimension of the tensor, in the order of its
                shape; a negative number cuts off as many.
            pads_end: The same, after the last.
            value: The new elements with `PaddingMode.CONSTANT`: a number, or for OpenVINO a sequence of just one.
            mode: What the new elements are: CONSTANT is `value`; REFLECT mirrors those inside without the outermost,
                SYMMETRIC with them.

        Raises:
            TypeError: For what are no lengths, no number or no mode.
        """
        given = (pads_begin, pads_end, value, mode)
        before, after, filling = as_integers(pads_begin), as_integers(pads_end), as_numbers(value)
        filled = member(mode, PaddingMode, PADDING_MODE)
        lengths = "pads_begin: Sequence[int], pads_end: Sequence[int]"
        signatures = tuple(f"{lengths}, value: {kind}, mode: PaddingMode" for kind in ("float", "Sequence[float]"))
        self._fit("pad", signatures, given, before, after, filling, filled)
        return self._record("pad", before, after, filling, filled)

    def _per_channel(self, method: str, given: object) -> Self:
        numbers = as_numbers(given)
        self._fit(method, _VALUES, (given,), numbers)
        return self._record(method, numbers)


def _listed(values: Iterable[SupportsIndex]) -> str:
    return f"[ {', '.join(map(str, values))} ]"
