"""Inputs whose bytes stand beside the head of a request, for inferwire.v1 and the Open Inference Protocol alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensor_checks import check_shape
from inferwire_server.core.tensors import Tensor, describe
from inferwire_server.errors import invalid_input


@dataclass(frozen=True, slots=True)
class RawInput:
    """An input whose bytes are beside the head."""

    element_type: ElementType
    shape: tuple[int, ...]

    def filled(self, data: bytes | memoryview, count: int) -> Tensor:
        """Give the tensor, or one with the rows of `count` executions."""
        shape = self.shape if count == 1 else (self.shape[0] * count, *self.shape[1:])
        return Tensor(self.element_type, shape, data)

    def cut(self, data: memoryview, count: int) -> Sequence[memoryview]:
        """Cut the bytes of a stack into those of each execution.

        Raises:
            ServingError: INVALID_INPUT.
        """
        check_shape(f"each of {count} tensors", self.shape)
        if self.element_type.is_string:
            return strings.cut(data, prod(self.shape), count)
        size = self.element_type.byte_size(self.shape)
        if data.nbytes != size * count:
            what = describe(self.element_type, self.shape)
            raise invalid_input(f"{count} tensors {what} have {data.nbytes} bytes, expected {size * count}")
        return [data[start : start + size] for start in range(0, size * count, size)] if size else [data] * count
