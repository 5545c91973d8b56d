"""How the elements of a tensor look as an array: in memory, and in the bytes of a message."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_proto.strings import Buffer

Array: TypeAlias = np.ndarray[Any, Any]

_MOST_BYTES = 2**63


def array_from_wire(element_type: ElementType, shape: Sequence[int], data: Buffer) -> Array:
    """View the elements of a message without copying, as `Memory.array` would show them.

    Raises:
        ValueError: If the data does not have as many bytes as the shape needs.
    """
    if element_type.is_string:
        return objects(strings.unpack(data, prod(shape))).reshape(tuple(shape))
    if len(data) != element_type.byte_size(shape):
        raise ValueError(
            f"a tensor of type {element_type.name} and shape {shape_text(shape)} has {len(data)} bytes, "
            f"expected {element_type.byte_size(shape)}"
        )
    return shaped(element_type, tuple(shape), np.frombuffer(data, element_type.storage_dtype))


def array_to_wire(element_type: ElementType, array: Array) -> bytes | memoryview:
    """Give the elements of an array as a message carries them; copy only what is not contiguous."""
    if element_type.is_string:
        return strings.pack(array.flat)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data.toreadonly()


def objects(items: Sequence[bytes]) -> Array:
    """Put byte strings into an array that keeps them as they are, trailing zeros included."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def new_buffer(element_type: ElementType, shape: Sequence[int]) -> Array:
    """Make memory for so many elements, which are not set, but for strings, which are empty.

    Raises:
        RuntimeError: If there is not that much memory.
    """
    units = units_of(element_type, shape)
    if units * max(element_type.bits // 8, 1) >= _MOST_BYTES:
        raise RuntimeError(f"Cannot allocate memory for type: {element_type.name} and shape: {shape_text(shape)}")
    try:
        return (
            np.full(units, b"", dtype=object) if element_type.is_string else np.empty(units, element_type.storage_dtype)
        )
    except MemoryError as error:
        raise RuntimeError(
            f"std::bad_alloc: no memory for type: {element_type.name} and shape: {shape_text(shape)}"
        ) from error


def units_of(element_type: ElementType, shape: Sequence[int]) -> int:
    """How many items of its array a tensor takes: bytes if the type is packed, else elements."""
    return element_type.byte_size(shape) if element_type.is_packed else prod(shape)


def shaped(element_type: ElementType, shape: tuple[int, ...], buffer: Array) -> Array:
    """Show the beginning of a flat buffer as a tensor of a shape."""
    used = buffer[: units_of(element_type, shape)]
    return used if element_type.is_packed else used.reshape(shape)


def shape_text(shape: Sequence[int]) -> str:
    """Write a shape as OpenVINO does."""
    return f"[{','.join(map(str, shape))}]"
