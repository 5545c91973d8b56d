"""Tensors as they cross the server: a type, a shape and bytes that are not copied on the way.

The bytes are dense, row-major and little-endian; packed types fill their bytes as OpenVINO
does; each string is its length in four bytes and its content. Only an input that is a box of
a larger tensor has gaps between its bytes, until a slot runs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from inferwire_proto import bf16, strings
from inferwire_proto.element_types import ElementType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
"""The shapes of an inference's inputs, in the model's order."""

MOST_DIMENSIONS = 64
"""How many dimensions a shape may have. numpy's arrays have no more, and the product of many more can be a number that
Python refuses to write."""

LARGE = 1 << 20
"""From this many bytes on, handing a tensor to a thread takes less time than copying or checking it on the loop."""


class Tensor(NamedTuple):
    """A tensor's value.

    Attributes:
        stored_as: The id under which its caller's session keeps it; its data is then there, and not here. 0 for none.
    """

    element_type: ElementType
    shape: tuple[int, ...]
    data: bytes | memoryview
    stored_as: int = 0

    @property
    def byte_size(self) -> int:
        """The length of the data in bytes."""
        return self.data.nbytes if isinstance(self.data, memoryview) else len(self.data)

    @property
    def is_in_one_piece(self) -> bool:
        """Whether its bytes lie side by side. Those of a box of a larger tensor may not."""
        return not isinstance(self.data, memoryview) or self.data.c_contiguous

    def in_one_piece(self) -> Tensor:
        """Copy it if its bytes do not lie side by side."""
        if self.is_in_one_piece:
            return self
        # numpy lets other threads run while it copies.
        return self._replace(data=np.ascontiguousarray(self.data).reshape(-1).view(np.uint8).data)

    def on_its_own(self) -> Tensor:
        """Copy it if its bytes are part of something larger, all of which they keep in memory."""
        data = self.data
        if isinstance(data, memoryview) and memoryview(data.obj).nbytes > data.nbytes:
            # numpy lets other threads run while it copies.
            own = bytes(data) if data.nbytes <= LARGE else np.frombuffer(data, np.uint8).copy().data
            return self._replace(data=own)
        return self

    def __repr__(self) -> str:
        return f"<Tensor {describe(self.element_type, self.shape)}: {self.byte_size} bytes>"


def describe(element_type: ElementType, shape: tuple[int, ...]) -> str:
    """Write a type and a shape as one reads them: f32[1,3,224,224]."""
    return f"{element_type.name}{write_shape(shape)}"


def write_shape(shape: Iterable[object]) -> str:
    """Write a shape as one reads it: [1,3,224,224]. One that is longer than any tensor has is cut."""
    lengths = [*map(str, islice(shape, MOST_DIMENSIONS + 1))]
    if len(lengths) > MOST_DIMENSIONS:
        lengths[-1] = "..."
    return f"[{','.join(lengths)}]"


def numbers(tensor: Tensor) -> Array:
    """Give the elements as a flat numpy array: a view, except for bf16, which numpy does not have. Not for strings."""
    array: Array = np.frombuffer(tensor.data, tensor.element_type.storage_dtype)
    return bf16.to_float32(array) if tensor.element_type.name == "bf16" else array


def zeros_byte_size(element_type: ElementType, shape: tuple[int, ...]) -> int:
    """Say how many bytes zeros take, or empty strings, each of which is a length of zero and no content."""
    return strings.LENGTH_BYTES * prod(shape) if element_type.is_string else element_type.byte_size(shape)


def zero_tensor(element_type: ElementType, shape: tuple[int, ...]) -> Tensor:
    """Make a tensor of zeros, of empty strings for the type string."""
    # The system gives memory that is zero at once, however large it is.
    return Tensor(element_type, shape, bytes(zeros_byte_size(element_type, shape)))
