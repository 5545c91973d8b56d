"""Tensors that the server keeps for this client: their ids, and the elements that inferences left in them.

Owns that the server frees a tensor once nothing here refers to it, and that elements are fetched at most once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from inferwire.tensors.element_arrays import Array, array_from_wire
from inferwire.transport.executions import StoredBox
from inferwire.transport.protocol import Transport
from inferwire_proto.element_types import ElementType


class KeptTensor:
    """A tensor on a server, by its id there. The server frees it once nothing refers to this object."""

    __slots__ = ("__weakref__", "_elements", "id", "transport")

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.id = transport.tensors.new_id()
        self._elements: weakref.ref[KeptElements] | None = None
        weakref.finalize(self, transport.tensors.release, self.id).atexit = False

    def __repr__(self) -> str:
        return f"<KeptTensor {self.id} on {self.transport.address}>"

    @property
    def is_in_use(self) -> bool:
        """Whether the elements that an inference left in it may still be read, because something refers to them."""
        return self._elements is not None and self._elements() is not None

    def take(self, element_type: ElementType, shape: Sequence[int]) -> KeptElements:
        """Note that an inference has left elements in it."""
        elements = KeptElements(self, element_type, tuple(shape))
        self._elements = weakref.ref(elements)
        return elements


class KeptElements:
    """The elements that one inference left in a kept tensor, fetched at most once and never changed."""

    __slots__ = ("__weakref__", "_array", "_lock", "element_type", "shape", "tensor")

    def __init__(self, tensor: KeptTensor, element_type: ElementType, shape: tuple[int, ...]) -> None:
        self.tensor = tensor
        self.element_type = element_type
        self.shape = shape
        self._array: Array | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<KeptElements in {self.tensor!r}: {'' if self.is_fetched else 'not '}fetched>"

    @property
    def is_fetched(self) -> bool:
        """Whether they have been fetched."""
        return self._array is not None

    def fetch(self) -> Array:
        """Give the elements, which must not be written to.

        Raises:
            RuntimeError: If the server does not have them any more, as `inferwire.TensorLost`, or does not answer.
        """
        with self._lock:
            if self._array is None:
                data = self.tensor.transport.tensors.get(StoredBox(self.tensor.id))
                self._array = array_from_wire(self.element_type, self.shape, data)
            return self._array


@dataclass(frozen=True, slots=True)
class KeptPart:
    """A kept tensor as an input reads it, in whole or in part; it keeps the tensor alive."""

    tensor: KeptTensor
    box: StoredBox


class KeptTensors:
    """The kept tensors for the outputs that land in one memory.

    A tensor is used again and again, but not while elements of an earlier inference may still be read from it.
    """

    __slots__ = ("_tensors",)

    def __init__(self) -> None:
        self._tensors: list[KeptTensor] = []

    def __repr__(self) -> str:
        return f"<KeptTensors: {self._tensors}>"

    def next(self, transport: Transport) -> KeptTensor:
        """Give the tensor for the next output, and let go of those that are not in use any more."""
        in_use = [each for each in self._tensors if each.is_in_use]
        unused = (each for each in self._tensors if each.transport is transport and not each.is_in_use)
        tensor = next(unused, None) or KeptTensor(transport)
        self._tensors = [*in_use, tensor]
        return tensor
