"""Tensors that the server keeps for this client: their names, and what inferences left in them.

Owns that the server frees a tensor once nobody here uses it, and that nothing is read twice.
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
    """A tensor on a server by its name there, which is free for another as soon as nobody holds this."""

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
        """Whether somebody may still want to read what an inference left in it."""
        return self._elements is not None and self._elements() is not None

    def take(self, element_type: ElementType, shape: Sequence[int]) -> KeptElements:
        """Note that an inference has left elements in it."""
        elements = KeptElements(self, element_type, tuple(shape))
        self._elements = weakref.ref(elements)
        return elements


class KeptElements:
    """What one inference left in a kept tensor, fetched at most once and never changed."""

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
        """Whether they are here."""
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
    """A kept tensor as an input reads it, in whole or in part; holding it keeps the tensor."""

    tensor: KeptTensor
    box: StoredBox


class KeptNames:
    """The names under which the server keeps the outputs that land in one memory.

    One name is used again and again, but not while results that nobody has read yet are under it.
    """

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: list[KeptTensor] = []

    def __repr__(self) -> str:
        return f"<KeptNames: {self._names}>"

    def next(self, transport: Transport) -> KeptTensor:
        """Give the name for the next output; names that nobody needs any more are freed."""
        in_use = [name for name in self._names if name.is_in_use]
        unused = (name for name in self._names if name.transport is transport and not name.is_in_use)
        name = next(unused, None) or KeptTensor(transport)
        self._names = [*in_use, name]
        return name
