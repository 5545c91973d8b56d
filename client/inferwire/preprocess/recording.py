"""How calls are recorded: which arguments they take, and how these are sent.

Owns the conversion of arguments, as pybind11 does it for OpenVINO's classes. OpenVINO itself runs the calls on the
server, and raises most of their errors there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, ClassVar, Self, SupportsFloat, SupportsIndex, cast

from inferwire.arguments import Unpicklable, as_integer, as_member, as_size, incompatible, openvino_class
from inferwire.values.layout import Layout, as_layout
from inferwire.values.partial_shape import PartialShape
from inferwire.values.types import Type, as_type, element_type_of
from inferwire_proto.preprocessing import Call
from inferwire_proto.properties import EnumValue, PropertyValue


class Part(Unpicklable):
    """A part of the record of one port. Each of its recording methods returns the part itself."""

    kind: ClassVar[str]
    """"input" or "output"."""
    part: ClassVar[str]
    """The method of the port's info that gives this part."""

    def __init__(self, calls: list[Call], port: int) -> None:
        self._calls = calls
        self._port = port

    def _record(self, method: str, *arguments: PropertyValue) -> Self:
        self._calls.append(Call(self.kind, self._port, self.part, method, arguments))
        return self

    def _record_type(self, method: str, signature: str, given: object) -> Self:
        """Record a call that takes a type; the dynamic one, which no tensor has, is left out."""
        known = as_type(given)
        self._fit(method, signature, (given,), known)
        wanted = cast("Type", known)
        return self._record(method, *(() if wanted is Type.dynamic else (element_type_of(wanted),)))

    def _fit(self, method: str, signatures: str | tuple[str, ...], given: tuple[object, ...], *fitting: object) -> None:
        """Raise the TypeError for the given arguments if one of them did not convert, and so became None."""
        if any(each is None for each in fitting):
            listed = (signatures,) if isinstance(signatures, str) else signatures
            texts = [f"(self: {type(self).__name__}, {each}) -> {type(self).__name__}" for each in listed]
            raise incompatible(method, *texts, invoked=(self, *given))


class LayoutPart(Part):
    """A part that takes a layout."""

    def set_layout(self, layout: Layout | str) -> Self:
        """Declare the meaning of each dimension. Mirrors `openvino.preprocess.InputTensorInfo.set_layout`.

        Args:
            layout: A letter for each dimension, in the order of the shape, such as "NCHW": N is the batch, C the
                channels, H the height and W the width.

        Raises:
            TypeError: For what is no layout.
        """
        text = layout_text(layout)
        self._fit("set_layout", "layout: Layout", (layout,), text)
        return self._record("set_layout", text)


class ConvertingPart(Part):
    """A part with the steps that inputs and outputs share."""

    def convert_element_type(self, type: Type = Type.dynamic) -> Self:  # noqa: A002 - openvino's name
        """Convert to a type; without one, to that of the model's input or of the output's tensor.

        Mirrors `openvino.preprocess.PreProcessSteps.convert_element_type`.

        Raises:
            TypeError: For what is no type.
        """
        return self._record_type("convert_element_type", "type: Type = Type.dynamic", type)

    def convert_layout(
        self,
        dst_layout: Layout | str | Iterable[SupportsIndex] | None = None,
        *,
        dims: Iterable[SupportsIndex] | None = None,
    ) -> Self:
        """Put the dimensions in the order of a layout, or of the given present positions.

        Mirrors `openvino.preprocess.PreProcessSteps.convert_layout`.

        Args:
            dst_layout: The wanted layout.
            dims: For each new dimension, its present position: 0, 3, 1, 2 makes NCHW of NHWC.

        Raises:
            TypeError: For what is neither.
        """
        given = dst_layout if dims is None else dims
        order = layout_text(given) or _each(given, as_size)
        self._fit("convert_layout", ("dst_layout: Layout", "dims: Sequence[int]"), (given,), order)
        return self._record("convert_layout", order)

    def custom(self, operation: Any) -> Self:
        """Run an operation of the program's own; not offered, since it would have to run on the server.

        Mirrors `openvino.preprocess.PreProcessSteps.custom`.

        Raises:
            TypeError: For what cannot be called.
            RuntimeError: For what can.
        """
        self._fit("custom", "operation: Callable", (operation,), operation if callable(operation) else None)
        raise RuntimeError(
            f"{type(self).__name__}.custom() is not offered by inferwire: its operation is a function of this program, "
            "and the model is built on the server; build it in with openvino, save the model as IR, and pass that file "
            "to read_model() or compile_model()"
        )


def layout_text(value: object) -> str | None:
    """Write a layout as it is sent."""
    layout = Layout(value) if isinstance(value, str) else as_layout(value)
    return None if layout is None else str(layout)


def member(value: object, choices: type[Enum], name: str) -> EnumValue | None:
    """Give a member of an enumeration as it is sent."""
    known = as_member(value, choices)
    return None if known is None else EnumValue(name, known.name)


def as_shape(value: object) -> str | None:
    """Write a shape as it is sent: a partial one, or lengths with -1 for any."""
    if isinstance(value, PartialShape) or openvino_class(value) == "PartialShape":
        return str(PartialShape(cast("PartialShape", value)))
    lengths = as_integers(value)
    return None if lengths is None else str(PartialShape(lengths))


def as_integers(value: object) -> list[Any] | None:
    """Convert a sequence of integers."""
    return _each(value, as_integer)


def as_numbers(value: object) -> PropertyValue:
    """Convert a number, or a sequence of them."""
    return _each(value, as_number) if _is_sequence(value) else as_number(value)


def as_number(value: object) -> float | None:
    """Convert a number; a string is none."""
    if isinstance(value, SupportsFloat) and not _is_sequence(value):
        return float(value)
    whole = as_integer(value)
    return None if whole is None else float(whole)


def _is_sequence(value: object) -> bool:
    is_scalar_array = getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and not is_scalar_array


def _each(value: object, convert: Callable[[object], float | None]) -> list[Any] | None:
    """Convert the items of a sequence; None for anything else, and where one does not convert."""
    if not _is_sequence(value):
        return None
    items = [convert(item) for item in cast("Iterable[object]", value)]
    return None if None in items else items
