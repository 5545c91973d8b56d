"""Shapes whose dimensions or rank may be unknown.

Owns `PartialShape`; a single dimension is in `inferwire.values.dimensions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, SupportsIndex, overload

from inferwire.arguments import (
    INT64_MAX,
    Unpicklable,
    as_integer,
    as_size,
    as_sizes,
    incompatible,
    is_list_or_tuple,
    openvino_class,
)
from inferwire.values.dimensions import Dimension, as_dimension, fields_of
from inferwire.values.shapes import Shape

_SIGNATURES = (
    "PartialShape(shape: Shape)",
    "PartialShape(shape: PartialShape)",
    "PartialShape(dimensions: list)",
    "PartialShape(dimensions: tuple)",
    "PartialShape(shape: str)",
)


_SHAPES = ("PartialShape", "Shape")
"""The classes of openvino whose objects are accepted, too: they are read from the text that they print."""


class PartialShape(Unpicklable):
    """A shape whose dimensions, or even their number, may be unknown. Mirrors `openvino.PartialShape`.

    Made from a list or tuple whose items are sizes (-1 for unknown), dimensions, strings as
    "1..8", or pairs of bounds; from a string as "[1,?,2..4]" ("[...]" if the rank is unknown);
    or from another shape.

    Differs from OpenVINO: an index before the start is an error, where openvino wraps it around.

    Example:
        >>> PartialShape([1, -1, (2, 4)])
        <PartialShape: [1,?,2..4]>

    Raises:
        TypeError: For what describes no shape.
        RuntimeError: For a string that describes no shape.
    """

    __slots__ = ("__weakref__", "_dimensions")

    def __init__(self, shape: Shape | PartialShape | list[Any] | tuple[Any, ...] | str) -> None:
        self._dimensions: list[Dimension] | None = _dimensions(shape)

    @staticmethod
    def dynamic(rank: Dimension | SupportsIndex | None = None) -> PartialShape:
        """Make a shape of which only the rank is known; without one, not even the rank is."""
        dimension = as_dimension(rank)
        if dimension is not None:
            length = dimension.min_length if dimension.is_static else -1
        else:
            number = -1 if rank is None else as_integer(rank)
            if number is None:
                raise incompatible("dynamic", "(rank: Dimension)", "(rank: int)", invoked=(rank,))
            length = number
        return PartialShape("..." if length < 0 else [-1] * length)

    def __copy__(self) -> PartialShape:
        return PartialShape(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> PartialShape:
        return PartialShape(self)

    def __repr__(self) -> str:
        return f"<PartialShape: {self}>"

    def __str__(self) -> str:
        if self._dimensions is None:
            return "[...]"
        return f"[{','.join(map(str, self._dimensions))}]"

    def __len__(self) -> int:
        return len(self._known())

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self._dimensions or ())

    @overload
    def __getitem__(self, index: SupportsIndex) -> Dimension: ...
    @overload
    def __getitem__(self, index: slice) -> PartialShape: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Dimension | PartialShape:
        if isinstance(index, slice):
            return PartialShape(self._known()[index])
        number = as_integer(index)
        if number is None:
            signatures = ("(self: PartialShape, index: int)", "(self: PartialShape, index: slice)")
            raise incompatible("__getitem__", *signatures, invoked=(self, index))
        dimensions = self._dimensions or []
        if not -len(dimensions) <= number < len(dimensions):
            raise RuntimeError("Accessing out-of-range dimension")
        return dimensions[number]

    def __setitem__(self, index: SupportsIndex, dimension: Dimension | SupportsIndex) -> None:
        number, length = as_size(index), as_integer(dimension)
        given = as_dimension(dimension) if length is None else Dimension(length)
        if number is None or given is None:
            signature = "(self: PartialShape, index: int, dimension: Dimension | int)"
            raise incompatible("__setitem__", signature, invoked=(self, index, dimension))
        dimensions = self._dimensions or []
        if number >= len(dimensions):
            raise RuntimeError("Accessing out-of-range dimension")
        dimensions[number] = given

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shape) or openvino_class(other) in _SHAPES:
            other = PartialShape(other)  # pyright: ignore[reportArgumentType]
        if isinstance(other, PartialShape):
            return self._dimensions == other._dimensions
        if not is_list_or_tuple(other):
            return NotImplemented
        if self.is_dynamic:
            raise TypeError(f"Cannot compare dynamic shape with {type(other)}")
        return tuple(self.to_shape()) == as_sizes(other)

    @property
    def is_static(self) -> bool:
        """Whether all dimensions are known. Mirrors `openvino.PartialShape.is_static`."""
        return self._dimensions is not None and all(each.is_static for each in self._dimensions)

    @property
    def is_dynamic(self) -> bool:
        """Whether anything is unknown. Mirrors `openvino.PartialShape.is_dynamic`."""
        return not self.is_static

    @property
    def rank(self) -> Dimension:
        """The number of dimensions. Mirrors `openvino.PartialShape.rank`."""
        return Dimension() if self._dimensions is None else Dimension(len(self._dimensions))

    @property
    def all_non_negative(self) -> bool:
        """Whether no dimension is negative; none ever is. Mirrors `openvino.PartialShape.all_non_negative`."""
        return True

    def get_dimension(self, index: SupportsIndex) -> Dimension:
        """Give one dimension. Mirrors `openvino.PartialShape.get_dimension`.

        Raises:
            TypeError: For a negative index.
            RuntimeError: For an index past the end.
        """
        number = as_integer(index)
        if number is None or number < 0:
            raise incompatible("get_dimension", "(self: PartialShape, index: int)", invoked=(self, index))
        return self[number]

    def get_min_shape(self) -> Shape:
        """Give the shape of the smallest lengths; empty if the rank is unknown.

        Mirrors `openvino.PartialShape.get_min_shape`.
        """
        return Shape([each.min_length for each in self._dimensions or []])

    def get_max_shape(self) -> Shape:
        """Give the shape of the largest lengths, 2**63 - 1 for a length without a bound.

        Mirrors `openvino.PartialShape.get_max_shape`.
        """
        bounds = [each.max_length for each in self._dimensions or []]
        return Shape([INT64_MAX if bound < 0 else bound for bound in bounds])

    def to_shape(self) -> Shape:
        """Give the shape as a `Shape`. Mirrors `openvino.PartialShape.to_shape`.

        Raises:
            RuntimeError: If it is not known in full.
        """
        if self.is_dynamic:
            raise RuntimeError("to_shape was called on a dynamic shape.")
        return self.get_min_shape()

    def get_shape(self) -> Shape:
        """Give the shape as a `Shape`. Mirrors `openvino.PartialShape.get_shape`.

        Raises:
            RuntimeError: If it is not known in full.
        """
        if self.is_dynamic:
            raise RuntimeError("get_shape() must be called on a static shape")
        return self.get_min_shape()

    def compatible(self, shape: PartialShape) -> bool:
        """Tell whether some shape fits both. Mirrors `openvino.PartialShape.compatible`."""
        other = _partial("compatible", self, shape)
        if self.rank.is_dynamic or other.rank.is_dynamic:
            return True
        return len(self) == len(other) and all(map(Dimension.compatible, self, other))

    def refines(self, shape: PartialShape) -> bool:
        """Tell whether every shape that fits this one fits the other. Mirrors `openvino.PartialShape.refines`."""
        other = _partial("refines", self, shape)
        if self.rank.is_dynamic or other.rank.is_dynamic:
            return other.rank.is_dynamic
        return len(self) == len(other) and all(map(Dimension.refines, self, other))

    def relaxes(self, shape: PartialShape) -> bool:
        """Tell whether every shape that fits the other fits this one. Mirrors `openvino.PartialShape.relaxes`."""
        return _partial("relaxes", self, shape).refines(self)

    def same_scheme(self, shape: PartialShape) -> bool:
        """Tell whether static dimensions are equal and dynamic ones stand in the same places.

        Mirrors `openvino.PartialShape.same_scheme`.
        """
        other = _partial("same_scheme", self, shape)
        if self.rank.is_dynamic or other.rank.is_dynamic:
            return self.rank == other.rank
        return len(self) == len(other) and all(map(Dimension.same_scheme, self, other))

    def to_string(self) -> str:
        """Give the text that `str` gives, as "[1,?]". Mirrors `openvino.PartialShape.to_string`."""
        return str(self)

    def _known(self) -> list[Dimension]:
        if self._dimensions is None:
            raise RuntimeError("Check 'rank().is_static()' failed: the shape's rank is not known")
        return self._dimensions


def _dimensions(shape: object) -> list[Dimension] | None:
    if isinstance(shape, str):
        fields = fields_of(shape)
        return None if fields == ["..."] else [Dimension(field) for field in fields]
    if isinstance(shape, PartialShape):
        return list(shape) if shape.rank.is_static else None
    if isinstance(shape, Shape):
        return [Dimension(size) for size in shape]
    if openvino_class(shape) in _SHAPES:
        return _dimensions(str(shape))
    if not is_list_or_tuple(shape):
        raise incompatible("__init__", *_SIGNATURES, invoked=(shape,))
    return [_dimension(item) for item in shape]


def _dimension(item: object) -> Dimension:
    dimension = as_dimension(item)
    if dimension is not None:
        return dimension
    if isinstance(item, int | str):
        return Dimension(item)
    if is_list_or_tuple(item):
        return Dimension(*_pair(item))
    raise TypeError(
        f"Incorrect type {type(item)} for dimension. Expected types are: int, str, "
        "openvino.Dimension, list/tuple with lower and upper values for dynamic dimension."
    )


def _pair(bounds: list[Any] | tuple[Any, ...]) -> tuple[int, int]:
    if len(bounds) != 2:
        raise TypeError(
            "Two elements are expected in tuple(lower, upper) for dynamic dimension, "
            f"but {len(bounds)} elements were given."
        )
    low, high = bounds
    if not (isinstance(low, int) and isinstance(high, int)):
        raise TypeError(
            f"Incorrect pair of types ({type(low)}, {type(high)}) for dynamic dimension, ints are expected."
        )
    return low, high


def _partial(function: str, owner: PartialShape, value: object) -> PartialShape:
    if isinstance(value, PartialShape):
        return value
    if openvino_class(value) not in _SHAPES:
        raise incompatible(function, "(self: PartialShape, shape: PartialShape)", invoked=(owner, value))
    return PartialShape(str(value))
