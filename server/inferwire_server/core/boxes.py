"""Boxes: parts of tensors between two corners.

Copies are numpy's, because numpy lets other threads run while it copies; `tobytes` and `bytes` do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inferwire_server.core.tensors import Tensor, describe, write_shape
from inferwire_server.errors import invalid_input


@dataclass(frozen=True, slots=True)
class Box:
    """From `begin` up to, not with, `end`, along each axis."""

    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How large it is."""
        return tuple(end - begin for begin, end in zip(self.begin, self.end, strict=False))

    def __str__(self) -> str:
        return write_shape(f"{begin}..{end}" for begin, end in zip(self.begin, self.end, strict=False))


def view(tensor: Tensor, box: Box) -> Tensor:
    """Show the part of a tensor that lies in a box, where it lies: in one piece or not.

    Raises:
        ServingError: INVALID_INPUT if the box is not within the tensor, or its elements are not whole bytes.
    """
    part = _part(_array(tensor), tensor, box)
    return Tensor(tensor.element_type, box.shape, _bytes_of(part) if part.flags.c_contiguous else part.data)


def cut(tensor: Tensor, box: Box) -> Tensor:
    """Give the part of a tensor that lies in a box: a copy, unless it lies there in one piece.

    Raises:
        ServingError: INVALID_INPUT as `view`.
    """
    return view(tensor, box).in_one_piece()


def paste(tensor: Tensor, box: Box, part: Tensor) -> Tensor:
    """Give a copy of a tensor in which `part` takes the place of what lay in the box.

    Raises:
        ServingError: INVALID_INPUT as `view`, or if the part does not fit the box.
    """
    kept = _array(tensor)
    _part(kept, tensor, box)
    if part.shape != box.shape or part.element_type is not tensor.element_type:
        raise invalid_input(
            f"the part is {describe(part.element_type, part.shape)}, "
            f"expected {describe(tensor.element_type, box.shape)} for the box {box}"
        )
    whole = kept.copy()
    _part(whole, tensor, box)[...] = _array(part)
    return tensor._replace(data=_bytes_of(whole))


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    if tensor.element_type.is_string or tensor.element_type.is_packed:
        raise invalid_input(f"a tensor of type {tensor.element_type.name} has no boxes, expected one of whole bytes")
    return np.frombuffer(tensor.data, tensor.element_type.storage_dtype).reshape(tensor.shape)


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _part(array: np.ndarray[Any, Any], tensor: Tensor, box: Box) -> np.ndarray[Any, Any]:
    fits = len(box.begin) == len(box.end) == len(tensor.shape) and all(
        0 <= begin <= end <= size for begin, end, size in zip(box.begin, box.end, tensor.shape, strict=True)
    )
    if not fits:
        raise invalid_input(f"the box {box} does not lie in {describe(tensor.element_type, tensor.shape)}")
    return array[tuple(map(slice, box.begin, box.end))]
