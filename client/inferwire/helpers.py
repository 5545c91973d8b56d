"""Elements of less than a byte, packed and unpacked. Mirrors `openvino.helpers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from inferwire.tab_completion import offered
from inferwire.values.shapes import Shape
from inferwire.values.types import Type

_LOW_BITS = {"u1": 1, "u2": 2, "u4": 4, "i4": 4, "nf4": 4, "f4e2m1": 4, "u3": 2, "u6": 4}
"""How many low bits of each element stand before the high bits of a group: all, if 8 is a multiple of the width."""


def pack_data(array: np.ndarray[Any, Any], type: Type) -> np.ndarray[Any, Any]:  # noqa: A002 - openvino's name
    """Pack integers into bytes, as tensors of a type keep them. Mirrors `openvino.helpers.pack_data`.

    Args:
        array: An integer for each element, in an array of any shape.
        type: The type of the elements, of less than 8 bits each.

    Returns:
        The bytes, in one dimension; the last one is filled up with zeros.

    Raises:
        AssertionError: For a type whose elements are not packed.
        RuntimeError: For values that are no integers of the type's kind.
    """
    width, low = _widths(type)
    integers = array.astype(np.int8 if type == Type.i4 else np.uint8, casting="unsafe")
    if width == low and not np.array_equal(integers, array):
        raise RuntimeError(f'The conversion of array "{array}" to dtype "{integers}" results in rounding')
    members = _members(width, low)
    flat = integers.reshape(-1).view(np.uint8)
    padded = np.concatenate((flat, np.zeros(-flat.size % members, np.uint8)))
    bits = np.unpackbits(padded[:, None], axis=1)[:, 8 - width :].reshape(-1, members, width)
    lows = bits[:, :, width - low :].reshape(len(bits), members * low)
    highs = bits[:, :, : width - low].reshape(len(bits), members * (width - low))
    return np.packbits(np.concatenate((lows, highs), axis=1))


def unpack_data(
    array: np.ndarray[Any, Any],
    type: Type,  # noqa: A002 - openvino's name
    shape: Shape | Sequence[SupportsIndex],
) -> np.ndarray[Any, Any]:
    """Unpack the bytes of a tensor's data into one integer for each element. Mirrors `openvino.helpers.unpack_data`.

    Args:
        array: The bytes, as `Tensor.data` gives them.
        type: The type of the elements, of less than 8 bits each.
        shape: The shape of the tensor, in elements.

    Returns:
        An array of the shape: int8 for i4, uint8 for all others.

    Raises:
        AssertionError: For a type whose elements are not packed.
    """
    width, low = _widths(type)
    members = _members(width, low)
    data = array.reshape(-1).view(np.uint8)
    whole = data[: data.size - data.size * 8 % (members * width) // 8]
    bits = np.unpackbits(whole).reshape(-1, members * width)
    lows = bits[:, : members * low].reshape(len(bits), members, low)
    highs = bits[:, members * low :].reshape(len(bits), members, width - low)
    elements = np.concatenate((highs, lows), axis=2).reshape(-1, width)
    sign = elements[:, :1] if type == Type.i4 else np.zeros((len(elements), 1), np.uint8)
    packed = np.packbits(np.concatenate((sign.repeat(8 - width, axis=1), elements), axis=1), axis=1)
    unpacked = np.resize(packed, tuple(shape))
    return unpacked.astype(np.int8) if type == Type.i4 else unpacked


def _widths(kind: Type) -> tuple[int, int]:
    low = _LOW_BITS.get(kind.type_name)
    if low is None:
        raise AssertionError(f"type {kind.type_name} is not packed, expected one of {', '.join(_LOW_BITS)}")
    return kind.bitwidth, low


def _members(width: int, low: int) -> int:
    """How many elements make the smallest whole number of bytes."""
    return 8 // width if width == low else 24 // width


__dir__ = offered(globals())
