"""The memory behind tensors: elements of one type under a shape that may change.

Owns how bytes are laid out, when they move and how they look on the wire. Users meet it as
`inferwire.Tensor`, which adds OpenVINO's interface and no storage of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_proto.strings import Buffer

_MOST_BYTES = 2**63


class Memory(ABC):
    """Elements under a shape.

    Attributes:
        row: What the elements are.
        shape: The current shape, in elements.
        array: The elements now. Packed types show a flat run of bytes, strings an array of bytes
            objects, all others their shape. Writing to it writes to the tensor.
    """

    __slots__ = ("array", "row", "shape")

    def __init__(self, row: ElementType, shape: tuple[int, ...], array: np.ndarray[Any, Any]) -> None:
        self.row = row
        self.shape = shape
        self.array = array

    @abstractmethod
    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Take another shape, keeping the memory where it fits.

        Raises:
            RuntimeError: Where the memory is not this tensor's own and too small.
        """

    @property
    @abstractmethod
    def strides(self) -> tuple[int, ...]:
        """How many bytes apart neighbours along each axis are, strings taking 32 bytes each."""

    def wire_data(self) -> Buffer:
        """Give the elements as inferwire's wire carries them; copy only what is not contiguous."""
        if self.row.is_string:
            return strings.pack(self.array.flat)
        dense = np.ascontiguousarray(self.array)
        return dense.reshape(-1).view(np.uint8).data.toreadonly()

    def load_wire(self, shape: tuple[int, ...], data: Buffer) -> None:
        """Take the shape and the elements of a message.

        Raises:
            ValueError: Where the data does not have the bytes the shape needs.
            RuntimeError: As `set_shape` does.
        """
        source = array_from_wire(self.row, shape, data)
        self.set_shape(shape)
        np.copyto(self.array, source)


class Dense(Memory):
    """Memory without gaps: a tensor's own, which grows, or shared with an array, which does not."""

    __slots__ = ("_buffer", "_capacity")

    def __init__(self, row: ElementType, shape: tuple[int, ...], buffer: np.ndarray[Any, Any], *, own: bool) -> None:
        super().__init__(row, shape, _shaped(row, shape, buffer))
        self._buffer = buffer
        self._capacity = None if own else prod(shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart neighbours are, as OpenVINO counts it for empty tensors too."""
        stride = self.array.itemsize * _spread(self.row)
        steps: list[int] = []
        for size in reversed(self.shape):
            steps.append(stride if steps or size else 0)
            stride = steps[-1] * size
        return tuple(reversed(steps))

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Take another shape; memory of its own grows, shared memory refuses to."""
        if shape == self.shape:
            return
        if self._capacity is not None and prod(shape) > self._capacity:
            raise RuntimeError(
                "Check 'shape_size(new_shape) <= ov::shape_size(m_capacity)' failed: "
                f"Could set new shape: {_text(shape)}: the tensor shares memory of {self._capacity} elements"
            )
        if _units(self.row, shape) > self._buffer.size:
            self._buffer = _buffer(self.row, shape)
        self.array = _shaped(self.row, shape, self._buffer)
        self.shape = shape


class Region(Memory):
    """A box inside another tensor's memory, with that tensor's strides."""

    __slots__ = ("_whole",)

    def __init__(self, row: ElementType, whole: np.ndarray[Any, Any]) -> None:
        super().__init__(row, whole.shape, whole)
        self._whole = whole

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart neighbours are in the tensor that this is a region of."""
        return tuple(stride * _spread(self.row) for stride in self._whole.strides)

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Take a shape of the same rank that lies within the region."""
        if len(shape) != self._whole.ndim:
            raise RuntimeError(
                f"Check 'new_shape.size() >= m_shape.size()' failed: "
                f"Cannot set new shape: {_text(shape)} for ROI tensor of rank {self._whole.ndim}!"
            )
        for index, (size, limit) in enumerate(zip(shape, self._whole.shape, strict=True)):
            if size > limit:
                raise RuntimeError(
                    f"Cannot set new shape: {_text(shape)} for ROI tensor! "
                    f"New dimension at index: {index} is not compatible."
                )
        self.array = self._whole[tuple(map(slice, shape))] if shape else self._whole
        self.shape = shape


def allocate(row: ElementType, shape: tuple[int, ...]) -> Dense:
    """Make memory of a tensor's own. Its content is not set, but for strings, which are empty.

    Raises:
        RuntimeError: Where there is not that much memory.
    """
    return Dense(row, shape, _buffer(row, shape), own=True)


def region(memory: Memory, begin: tuple[int, ...], end: tuple[int, ...]) -> Region:
    """Share the box from `begin` up to, not with, `end`.

    Raises:
        RuntimeError: Where the box does not lie in the memory, or elements share bytes.
    """
    if len(begin) != len(memory.shape):
        raise RuntimeError(
            "Check 'tensor_shape.size() == begin.size()' failed: "
            f"begin has {len(begin)} dimensions, expected {len(memory.shape)}"
        )
    if len(begin) != len(end):
        raise RuntimeError(
            f"Check 'begin.size() == end.size()' failed: end has {len(end)} dimensions, expected {len(begin)}"
        )
    for start, stop, size in zip(begin, end, memory.shape, strict=True):
        _check_interval(start, stop, size)
    refuse_packed(memory.row)
    box = tuple(map(slice, begin, end))
    return Region(memory.row, memory.array[box] if box else memory.array)


def refuse_packed(row: ElementType) -> None:
    """Refuse types whose elements share bytes, so that no stride leads to one of them.

    Raises:
        RuntimeError: For such a type.
    """
    if row.is_packed:
        raise RuntimeError(f"Could not get strides for types with bitwidths less then 8 bit. Tensor type: {row.name}")


def array_from_wire(row: ElementType, shape: Sequence[int], data: Buffer) -> np.ndarray[Any, Any]:
    """View the elements of a message without copying, as `Memory.array` would show them.

    Raises:
        ValueError: Where the data does not have the bytes the shape needs.
    """
    if row.is_string:
        return objects(strings.unpack(data, prod(shape))).reshape(tuple(shape))
    if len(data) != row.byte_size(shape):
        raise ValueError(
            f"a tensor of type {row.name} and shape {_text(shape)} has {len(data)} bytes, "
            f"expected {row.byte_size(shape)}"
        )
    return _shaped(row, tuple(shape), np.frombuffer(data, row.storage_dtype))


def objects(items: Sequence[bytes]) -> np.ndarray[Any, Any]:
    """Put byte strings into an array that keeps them as they are, trailing zeros included."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _check_interval(start: int, stop: int, size: int) -> None:
    if start > size:
        raise RuntimeError(f"Check '*roi_begin <= *max_dim' failed: the region begins at {start} of {size}")
    if stop > size:
        raise RuntimeError(f"Check '*roi_end <= *max_dim' failed: the region ends at {stop} of {size}")
    if start > stop:
        raise RuntimeError(f"Check '*roi_dim <= *max_dim' failed: the region begins at {start}, ends at {stop}")


def _spread(row: ElementType) -> int:
    """How many of OpenVINO's bytes one byte of ours stands for: its string objects are larger."""
    return 32 // np.dtype(object).itemsize if row.is_string else 1


def _units(row: ElementType, shape: Sequence[int]) -> int:
    return row.byte_size(shape) if row.is_packed else prod(shape)


def _buffer(row: ElementType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    units = _units(row, shape)
    if units * max(row.bits // 8, 1) >= _MOST_BYTES:
        raise RuntimeError(f"Cannot allocate memory for type: {row.name} and shape: {_text(shape)}")
    try:
        return np.full(units, b"", dtype=object) if row.is_string else np.empty(units, row.storage_dtype)
    except MemoryError as error:
        raise RuntimeError(f"std::bad_alloc: no memory for type: {row.name} and shape: {_text(shape)}") from error


def _shaped(row: ElementType, shape: tuple[int, ...], buffer: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    used = buffer[: _units(row, shape)]
    return used if row.is_packed else used.reshape(shape)


def _text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"
