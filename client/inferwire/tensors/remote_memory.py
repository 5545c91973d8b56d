"""Memory that is on the server for good: that of a remote tensor, or a box in it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from inferwire.tensors.element_arrays import Array, array_from_wire, array_to_wire, shape_text
from inferwire.tensors.kept_tensors import KeptElements, KeptPart, KeptTensor
from inferwire.tensors.memory import Memory
from inferwire.transport.executions import StoredBox
from inferwire.transport.protocol import Transport
from inferwire_proto.element_types import ElementType


class RemoteMemory(Memory):
    """Elements that the server keeps. Each reading fetches them, each writing sends them."""

    __slots__ = ("_begin", "tensor")

    def __init__(
        self,
        tensor: KeptTensor,
        element_type: ElementType,
        shape: tuple[int, ...],
        begin: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(element_type, shape)
        self.tensor = tensor
        self._begin = begin

    @property
    def box(self) -> StoredBox:
        """Which tensor it is on the server, or which box in one."""
        if self._begin is None:
            return StoredBox(self.tensor.id)
        end = tuple(start + size for start, size in zip(self._begin, self.shape, strict=True))
        return StoredBox(self.tensor.id, self._begin, end)

    @property
    def array(self) -> Array:
        """The elements as they are now; read-only, because what is written to them would be lost."""
        return self.read()

    def read(self) -> Array:
        """Fetch the elements."""
        array = array_from_wire(self.element_type, self.shape, self.tensor.transport.tensors.get(self.box))
        array.flags.writeable = False
        return array

    def write(self, elements: Array) -> None:
        """Send the elements."""
        dtype = object if self.element_type.is_string else self.element_type.storage_dtype
        self._put(np.broadcast_to(elements, self._array_shape).astype(dtype, copy=False), self.shape)

    def load(self, elements: Array, shape: tuple[int, ...]) -> None:
        """Send a shape and the elements."""
        if self._begin is not None:
            self.set_shape(shape)
        self._put(elements, shape)
        self.shape = shape

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart neighbours would be, were it a tensor of its own."""
        size = 32 if self.element_type.is_string else self.element_type.storage_dtype.itemsize
        return tuple(size * prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def is_continuous(self) -> bool:
        """Whether it is a whole tensor."""
        return self._begin is None

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse another shape."""
        if shape != self.shape:
            raise RuntimeError(
                f"Cannot set new shape: {shape_text(shape)}: the tensor on the server has the shape "
                f"{shape_text(self.shape)}; create another"
            )

    def _region(self, begin: tuple[int, ...], end: tuple[int, ...]) -> RemoteMemory:
        """Share a box of it."""
        origin = self._begin or (0,) * len(self.shape)
        inside = tuple(start + offset for start, offset in zip(origin, begin, strict=True))
        shape = tuple(stop - start for start, stop in zip(begin, end, strict=True))
        return RemoteMemory(self.tensor, self.element_type, shape, inside)

    def mark_as_input(self) -> None:
        """Change nothing: the server has the elements in any case."""

    def kept_by(self, transport: Transport) -> KeptPart | None:
        """Where its own server has it; None for other servers, for which it is fetched."""
        return KeptPart(self.tensor, self.box) if transport is self.tensor.transport else None

    def reserve_output(self, transport: Transport, *, postpone: bool) -> KeptTensor:
        """Have an output land in it.

        Raises:
            RuntimeError: If it is another server's, or a box.
        """
        del postpone
        if transport is not self.tensor.transport:
            raise RuntimeError(
                f"the remote tensor is on the server at {self.tensor.transport.address} and cannot be an output of a "
                f"model on the one at {transport.address}"
            )
        if self._begin is not None:
            raise RuntimeError("a region of a remote tensor cannot be an output, expected a whole one")
        return self.tensor

    def take_kept(self, elements: KeptElements) -> None:
        """Take the shape of an output that landed in it."""
        self.shape = elements.shape

    def fetcher(self, *, share: bool) -> Callable[[], Array]:
        """Give a function that fetches the elements that are there when it is called."""
        return self.read if share else self._copy

    def _copy(self) -> Array:
        return self.read().copy()

    def _put(self, array: Array, shape: tuple[int, ...]) -> None:
        data = array_to_wire(self.element_type, array)
        self.tensor.transport.tensors.put(self.box, self.element_type, shape, data)

    @property
    def _array_shape(self) -> tuple[int, ...]:
        return (self.element_type.byte_size(self.shape),) if self.element_type.is_packed else self.shape
