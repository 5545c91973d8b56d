"""The record of an input: `InputInfo` and its parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, SupportsIndex, cast

from inferwire.arguments import Unpicklable, as_member, as_size, is_array
from inferwire.preprocess.choices import ColorFormat
from inferwire.preprocess.recording import LayoutPart, as_shape
from inferwire.preprocess.steps import PreProcessSteps
from inferwire.tensors.tensor import Tensor, as_tensor
from inferwire.values.partial_shape import PartialShape
from inferwire.values.types import Type
from inferwire_proto.preprocessing import COLOR_FORMAT, Call
from inferwire_proto.properties import EnumValue


class InputTensorInfo(LayoutPart):
    """The tensor that programs give for an input. Mirrors `openvino.preprocess.InputTensorInfo`."""

    kind = "input"
    part = "tensor"

    def __init__(self, calls: list[Call], port: int) -> None:
        super().__init__(calls, port)
        self._has_shape = False
        self._has_spatial_shape = False

    def set_element_type(self, type: Type) -> Self:  # noqa: A002 - openvino's name
        """Declare the type of the elements. Mirrors `openvino.preprocess.InputTensorInfo.set_element_type`.

        If it is not the model's, the elements are converted.

        Raises:
            TypeError: For what is no type.
        """
        return self._record_type("set_element_type", "type: Type", type)

    def set_color_format(self, format: ColorFormat, sub_names: Iterable[str] = ()) -> Self:  # noqa: A002 - as above
        """Declare the colour format and, if its planes are tensors of their own, the names of these.

        Mirrors `openvino.preprocess.InputTensorInfo.set_color_format`.

        Args:
            format: The format of the given picture; `PreProcessSteps.convert_color` converts it to another.
            sub_names: The suffix of the input's name for each plane, as "y" for "image/y": 2 for NV12_TWO_PLANES, 3 for
                I420_THREE_PLANES.

        Raises:
            TypeError: For what is no format.
            RuntimeError: For names that are not as many as the planes, or for any with a format of a single plane.
        """
        known, names = as_member(format, ColorFormat), list(sub_names)
        self._fit("set_color_format", "format: ColorFormat, sub_names: Sequence[str] = []", (format, names), known)
        color = cast("ColorFormat", known)
        if names and color.planes == 1:
            raise RuntimeError(f"Plane names are not allowed for single plane color format '{color.title}'")
        if names and color.planes != len(names):
            raise RuntimeError(
                f"Number of sub-names ({len(names)}) shall match with number of planes for '{color.title}' color "
                f"format ({color.planes})"
            )
        return self._record("set_color_format", EnumValue(COLOR_FORMAT, color.name), [*names])

    def set_shape(self, shape: PartialShape | Iterable[SupportsIndex]) -> Self:
        """Declare the shape of the tensor, -1 for any length. Mirrors `openvino.preprocess.InputTensorInfo.set_shape`.

        Args:
            shape: Lengths in elements, in the order of the tensor's own layout.

        Raises:
            TypeError: For what is no shape.
            RuntimeError: If a spatial shape was set before.
        """
        text = as_shape(shape)
        self._fit("set_shape", ("shape: PartialShape", "shape: Sequence[int]"), (shape,), text)
        if self._has_spatial_shape:
            raise RuntimeError(
                "'set_spatial_static_shape', 'set_spatial_dynamic_shape', 'set_shape/set_from' shall not be used "
                "together"
            )
        self._has_shape = True
        return self._record("set_shape", text)

    def set_from(self, tensor: Any) -> Self:
        """Declare the type and shape of a tensor or array. Mirrors `openvino.preprocess.InputTensorInfo.set_from`.

        Raises:
            TypeError: For anything else.
            RuntimeError: If a spatial shape was set before.
        """
        like = Tensor(tensor) if is_array(tensor) else as_tensor(tensor)
        self._fit("set_from", ("tensor: Tensor", "tensor: numpy.ndarray"), (tensor,), like)
        known = cast("Tensor", like)
        return self.set_shape(known.shape).set_element_type(known.element_type)

    def set_spatial_dynamic_shape(self) -> Self:
        """Declare that pictures have any height and width.

        Mirrors `openvino.preprocess.InputTensorInfo.set_spatial_dynamic_shape`.

        Raises:
            RuntimeError: If a shape was set before.
        """
        self._take_spatial("set_spatial_dynamic_shape")
        return self._record("set_spatial_dynamic_shape")

    def set_spatial_static_shape(self, height: SupportsIndex, width: SupportsIndex) -> Self:
        """Declare the size of pictures. Mirrors `openvino.preprocess.InputTensorInfo.set_spatial_static_shape`.

        Args:
            height: The length of the dimension that the layout calls H, in pixels.
            width: The length of the dimension that it calls W, in pixels.

        Raises:
            TypeError: For what are no lengths.
            RuntimeError: If a shape was set before.
        """
        rows, columns = as_size(height), as_size(width)
        self._fit("set_spatial_static_shape", "height: int, width: int", (height, width), rows, columns)
        self._take_spatial("set_spatial_static_shape")
        return self._record("set_spatial_static_shape", rows, columns)

    def set_memory_type(self, memory_type: str) -> Self:
        """Declare the memory in which the device finds the tensor.

        Mirrors `openvino.preprocess.InputTensorInfo.set_memory_type`.

        Raises:
            TypeError: For what is no string.
        """
        text = memory_type if isinstance(cast("object", memory_type), str) else None
        self._fit("set_memory_type", "memory_type: str", (memory_type,), text)
        return self._record("set_memory_type", text)

    def _take_spatial(self, method: str) -> None:
        if self._has_shape:
            raise RuntimeError(f"'{method}' and 'set_shape/set_from' shall not be used together")
        self._has_spatial_shape = True


class InputModelInfo(LayoutPart):
    """The input as the model takes it. Mirrors `openvino.preprocess.InputModelInfo`."""

    kind = "input"
    part = "model"


class InputInfo(Unpicklable):
    """The record of one input. Mirrors `openvino.preprocess.InputInfo`."""

    def __init__(self, calls: list[Call], port: int) -> None:
        self._tensor = InputTensorInfo(calls, port)
        self._steps = PreProcessSteps(calls, port)
        self._model = InputModelInfo(calls, port)

    def tensor(self) -> InputTensorInfo:
        """Give the part that describes the tensor. Mirrors `openvino.preprocess.InputInfo.tensor`."""
        return self._tensor

    def preprocess(self) -> PreProcessSteps:
        """Give the steps. Mirrors `openvino.preprocess.InputInfo.preprocess`."""
        return self._steps

    def model(self) -> InputModelInfo:
        """Give the part that describes the model's input. Mirrors `openvino.preprocess.InputInfo.model`."""
        return self._model
