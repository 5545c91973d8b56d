"""A request's own memory for an input. If it is large, it is of a kind that a server on this host can read in place.

Owns how it grows. Whether a server does read it is the transport's business.
"""

from __future__ import annotations

import numpy as np

from inferwire.tensors.dense_memory import Dense
from inferwire.tensors.element_arrays import Array, units_of
from inferwire.transport.lent_memory import Lend, LentMemory
from inferwire_proto.element_types import ElementType


class Lendable(Dense):
    """Dense memory of its own, all zeros at first, whose wire form tells the transport which lent memory it lies in."""

    __slots__ = ("_lend", "_lent")

    def __init__(self, element_type: ElementType, shape: tuple[int, ...], lend: Lend) -> None:
        self._lend = lend
        self._lent: LentMemory | None = None
        self.element_type = element_type
        buffer = self._make_room(shape)
        if self._lent is None and not element_type.is_string:
            buffer[...] = np.zeros((), element_type.storage_dtype)
        super().__init__(element_type, shape, buffer, own=True)

    def _make_room(self, shape: tuple[int, ...]) -> Array:
        element_type = self.element_type
        self._lent = (
            None if element_type.is_string or element_type.is_packed else self._lend(element_type.byte_size(shape))
        )
        if self._lent is None:
            return super()._make_room(shape)
        return self._lent.elements(element_type.storage_dtype, units_of(element_type, shape))

    def _show_wire(self) -> memoryview:
        if self._lent is None:
            return super()._show_wire()
        return self._lent.wire_data(self.element_type.byte_size(self.shape))
