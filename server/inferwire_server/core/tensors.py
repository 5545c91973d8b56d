"""Tensors as they cross the server: a type, a shape and bytes nobody copies.

The bytes are dense, row-major and little-endian; packed types fill their bytes as OpenVINO
does; each string is its length in four bytes and its content.
"""

from __future__ import annotations

from dataclasses import dataclass

from inferwire_proto.element_types import ElementType


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's value."""

    element_type: ElementType
    shape: tuple[int, ...]
    data: bytes | memoryview

    @property
    def byte_size(self) -> int:
        """The length of the data in bytes."""
        return self.data.nbytes if isinstance(self.data, memoryview) else len(self.data)

    def __repr__(self) -> str:
        return f"<Tensor {describe(self.element_type, self.shape)}: {self.byte_size} bytes>"


def describe(element_type: ElementType, shape: tuple[int, ...]) -> str:
    """Write a type and a shape as one reads them: f32[1,3,224,224]."""
    return f"{element_type.name}[{','.join(map(str, shape))}]"
