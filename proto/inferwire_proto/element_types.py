"""The one table of element types: OpenVINO, numpy, the Open Inference Protocol and inferwire.v1.

Everything that must know how an element looks in memory asks this table. It imports numpy
and nothing else, so both sides and every layer may use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class ElementType:
    """One element type: a row of the table, equal to itself alone.

    Attributes:
        name: OpenVINO's name, as `ov.Type.NAME` and `Type.get_type_name()` give it.
        wire: The number of the type in `inferwire.v1.ElementType`.
        bits: Bits of one element in a tensor's buffer; 0 for strings, which have no fixed size.
        storage: The numpy dtype of the buffer OpenVINO shows for such a tensor. Packed types
            show bytes, bf16 shows float16-typed bits, strings have none.
        oip: The Open Inference Protocol's name, or None if the protocol has no such type.
        unit_elements: How many elements share one indivisible storage unit of packed types.
        is_packed: Whether several elements share a byte, so that a tensor's buffer is a flat run of bytes.
        is_string: Whether elements are byte strings of any length.
    """

    name: str
    wire: int
    bits: int
    storage: np.dtype[Any] | None
    oip: str | None = None
    unit_elements: int = 1
    is_packed: bool = field(init=False)
    is_string: bool = field(init=False)

    def __post_init__(self) -> None:
        # Kept, because every inference asks for them several times.
        object.__setattr__(self, "is_packed", self.unit_elements > 1)
        object.__setattr__(self, "is_string", self.storage is None)

    @property
    def storage_dtype(self) -> np.dtype[Any]:
        """Give the buffer's numpy dtype.

        Raises:
            TypeError: For strings, which have no fixed-size buffer.
        """
        if self.storage is None:
            raise TypeError("elements of type string have no fixed-size storage")
        return self.storage

    def byte_size(self, shape: Sequence[int]) -> int:
        """Count the bytes of a dense tensor of this shape.

        Raises:
            TypeError: For strings, whose size depends on their content.
        """
        if self.storage is None:
            raise TypeError("the byte size of a string tensor depends on its content")
        units = -(-prod(shape) // self.unit_elements)
        return units * (self.bits * self.unit_elements // 8)


def _row(
    name: str,
    wire: int,
    bits: int,
    storage: type[np.generic],
    oip: str | None = None,
    unit_elements: int = 1,
) -> ElementType:
    # From its text, a little-endian machine makes its native dtype, which other readers of numpy's memory know.
    little_endian = np.dtype(np.dtype(storage).newbyteorder("<").str)
    return ElementType(name, wire, bits, little_endian, oip, unit_elements)


ELEMENT_TYPES: tuple[ElementType, ...] = (
    _row("boolean", 1, 8, np.bool_, "BOOL"),
    _row("bf16", 2, 16, np.float16, "BF16"),
    _row("f16", 3, 16, np.float16, "FP16"),
    _row("f32", 4, 32, np.float32, "FP32"),
    _row("f64", 5, 64, np.float64, "FP64"),
    _row("f8e4m3", 6, 8, np.uint8),
    _row("f8e5m2", 7, 8, np.uint8),
    _row("f8e8m0", 8, 8, np.uint8),
    _row("f4e2m1", 9, 4, np.uint8, unit_elements=2),
    _row("nf4", 10, 4, np.uint8, unit_elements=2),
    _row("i4", 11, 4, np.int8, unit_elements=2),
    _row("i8", 12, 8, np.int8, "INT8"),
    _row("i16", 13, 16, np.int16, "INT16"),
    _row("i32", 14, 32, np.int32, "INT32"),
    _row("i64", 15, 64, np.int64, "INT64"),
    _row("u1", 16, 1, np.uint8, unit_elements=8),
    _row("u2", 17, 2, np.uint8, unit_elements=4),
    _row("u3", 18, 3, np.uint8, unit_elements=8),
    _row("u4", 19, 4, np.uint8, unit_elements=2),
    _row("u6", 20, 6, np.uint8, unit_elements=4),
    _row("u8", 21, 8, np.uint8, "UINT8"),
    _row("u16", 22, 16, np.uint16, "UINT16"),
    _row("u32", 23, 32, np.uint32, "UINT32"),
    _row("u64", 24, 64, np.uint64, "UINT64"),
    ElementType("string", 25, 0, None, "BYTES"),
)

BY_NAME: dict[str, ElementType] = {row.name: row for row in ELEMENT_TYPES}
BY_WIRE: dict[int, ElementType] = {row.wire: row for row in ELEMENT_TYPES}
BY_OIP: dict[str, ElementType] = {row.oip: row for row in ELEMENT_TYPES if row.oip is not None}
