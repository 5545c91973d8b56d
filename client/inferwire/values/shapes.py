"""Known sizes: `Shape`, `Strides` and `Coordinate`, which are lists of sizes under three names.

Sizes that may be unknown are in `inferwire.values.dimensions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Self, SupportsIndex, cast, overload

from inferwire.arguments import (
    Unpicklable,
    as_integer,
    as_size,
    as_sizes,
    incompatible,
    is_list_or_tuple,
    openvino_class,
    position,
    size_in,
)
from inferwire.values.dimensions import Dimension, as_dimension, fields_of


class _Sizes(Unpicklable):
    """A list of sizes that can be indexed and assigned to, but not grown."""

    __slots__ = ("__weakref__", "_sizes")

    def __init__(self, sizes: Iterable[SupportsIndex]) -> None:
        converted = as_sizes(sizes)
        if converted is None:
            name = type(self).__name__
            raise incompatible("__init__", f"{name}(sizes: Sequence[int])", invoked=(sizes,))
        self._sizes = list(converted)

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sizes)

    def __getitem__(self, index: SupportsIndex) -> int:
        return self._sizes[position("__getitem__", self, index, len(self))]

    def __setitem__(self, index: SupportsIndex, size: SupportsIndex) -> None:
        converted = as_size(size)
        if converted is None:
            raise incompatible("__setitem__", "(self, index: int, size: int)", invoked=(self, index, size))
        self._sizes[position("__setitem__", self, index, len(self))] = converted


class _ComparableSizes(_Sizes):
    """Sizes that equal lists and tuples of the same numbers."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)):
            return self._sizes == other._sizes
        if is_list_or_tuple(other) or openvino_class(other) == type(self).__name__:
            return tuple(self._sizes) == as_sizes(other)
        return NotImplemented


class Shape(_ComparableSizes, Sequence[int]):
    """The shape of a tensor, all dimensions known. Mirrors `openvino.Shape`.

    Made from a sequence of sizes, another shape, a string as "1,3" or "[1,3]", or nothing, which
    is the shape of a scalar. It equals lists, tuples and static partial shapes.

    Differs from OpenVINO: an index past the end is an IndexError, where openvino reads or writes
    memory that is not its own; a string that holds no sizes, or too large ones, is refused, where openvino reads 0;
    assigning a negative size is a TypeError, where openvino wraps it around. It is a `Sequence`, as which type checkers
    let numpy take it: `np.zeros(port.shape)`.

    Example:
        >>> Shape([1, 3])
        <Shape: [1,3]>
        >>> Shape([1, 3]) == (1, 3)
        True

    Raises:
        TypeError: For what is no sequence of sizes.
        RuntimeError: For a string that holds no sizes.
    """

    __slots__ = ()

    def __init__(self, axis_lengths: Iterable[SupportsIndex] | str = (), *, shape: str | None = None) -> None:
        if shape is not None:
            axis_lengths = shape
        if isinstance(axis_lengths, str):
            axis_lengths = [_parse_size(field) for field in fields_of(axis_lengths)]
        super().__init__(axis_lengths)

    def __repr__(self) -> str:
        return f"<Shape: {self}>"

    def __str__(self) -> str:
        return f"[{','.join(map(str, self._sizes))}]"

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Self:
        if isinstance(index, slice):
            return type(self)(self._sizes[index])
        number = as_integer(index)
        if number is None or number >= 0:
            return super().__getitem__(index)
        if number < -len(self):
            raise IndexError(f"index {number} is out of range for {self!r}")
        return self._sizes[number]

    def __setitem__(self, index: SupportsIndex, size: SupportsIndex | Dimension) -> None:
        dimension = None if isinstance(size, int) else as_dimension(size)
        super().__setitem__(index, cast("int", size) if dimension is None else dimension.get_length())

    def to_string(self) -> str:
        """Give the text that `str` gives, as "[1,3]". Mirrors `openvino.Shape.to_string`."""
        return str(self)


class Strides(_ComparableSizes):
    """How many bytes apart neighbouring elements along each axis are. Mirrors `openvino.Strides`.

    Differs from OpenVINO: an index past the end is an IndexError.

    Example:
        >>> Strides([12, 4])
        <Strides: (12, 4)>

    Raises:
        TypeError: For what is no sequence of sizes.
    """

    __slots__ = ()

    def __init__(self, axis_strides: Iterable[SupportsIndex]) -> None:
        super().__init__(axis_strides)

    def __repr__(self) -> str:
        return f"<Strides: ({self})>"

    def __str__(self) -> str:
        return ", ".join(map(str, self._sizes))


class Coordinate(_Sizes):
    """A corner of a region in a tensor. Mirrors `openvino.Coordinate`.

    As in openvino, two coordinates are equal only if they are the same object.

    Differs from OpenVINO: an index past the end is an IndexError.

    Example:
        >>> list(Coordinate([0, 2]))
        [0, 2]

    Raises:
        TypeError: For what is no sequence of sizes.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "<Coordinate>"


def _parse_size(field: str) -> int:
    size = size_in(field)
    if size is None:
        raise RuntimeError(f'Cannot get vector of dimensions! "{field}" is incorrect')
    return size
