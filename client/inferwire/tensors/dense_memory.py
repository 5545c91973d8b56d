"""Memory of this process: without gaps, or a box in such memory.

Owns which elements are here and which are still on the server, as those may be that the program has not read yet.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from math import prod

import numpy as np

from inferwire.tensors.element_arrays import Array, new_buffer, shape_text, shaped, units_of
from inferwire.tensors.kept_tensors import KeptElements, KeptPart, KeptTensor, KeptTensors
from inferwire.tensors.memory import Memory
from inferwire.transport.executions import StoredBox, WireBytes
from inferwire.transport.protocol import Transport
from inferwire_proto.element_types import ElementType
from inferwire_proto.strings import Buffer


class Home(Enum):
    """Where the elements are to be kept that the next inference writes."""

    UNDECIDED = auto()
    """The program has not read any yet: they are sent here, unless the request postpones its outputs."""
    SERVER = auto()
    """Another request reads them on the server, and the program has not read any here."""
    HERE = auto()
    """The program has read some here: every answer brings them."""


_HERE = Home.HERE
"""Compared with on every access to a tensor's data: Python 3.11 takes long to find a member in its enumeration."""


class Dense(Memory):
    """Memory without gaps: a tensor's own, which grows, or shared with an array, which does not.

    The elements of a tensor's own memory may be on the server until the program reads them. After that, they always
    come here: a view that the program holds must show what the next inference leaves, and what was read once is likely
    to be read again.
    """

    __slots__ = ("_array", "_buffer", "_bytes", "_capacity", "_home", "_kept", "_kept_tensors", "_wire")

    def __init__(self, element_type: ElementType, shape: tuple[int, ...], buffer: Array, *, own: bool) -> None:
        super().__init__(element_type, shape, None if element_type.is_string else 0)
        self._array = shaped(element_type, shape, buffer)
        self._bytes: memoryview | None = None
        self._wire: memoryview | None = None
        self._buffer = buffer
        self._capacity = None if own else prod(shape)
        self._kept: KeptElements | None = None
        self._kept_tensors: KeptTensors | None = None
        self._home = Home.UNDECIDED if own and not element_type.is_string else _HERE

    @property
    def array(self) -> Array:
        """The elements, here from now on."""
        return self._array if self._home is _HERE and self._kept is None else self.pin()

    def pin(self) -> Array:
        """Have the elements here from now on."""
        self._set_home(_HERE)
        return self.read()

    def read(self) -> Array:
        """Give the elements, fetching them if only the server has them."""
        if self._kept is not None:
            elements = self._kept.fetch()
            self._set_home(_HERE)
            np.copyto(self._array, elements)
            self._set_kept(None)
        return self._array

    def write(self, elements: Array) -> None:
        """Set all elements."""
        if self._kept is not None:
            self._set_kept(None)
        self._array[...] = elements

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart neighbours are, as OpenVINO counts it for empty tensors too."""
        stride = self._array.itemsize * _spread(self.element_type)
        steps: list[int] = []
        for size in reversed(self.shape):
            steps.append(stride if steps or size else 0)
            stride = steps[-1] * size
        return tuple(reversed(steps))

    @property
    def is_continuous(self) -> bool:
        """Always."""
        return True

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Take another shape; memory of its own grows, shared memory refuses to."""
        if shape != self.shape:
            self.read()
            self._reshape(shape)

    def wire_data(self) -> WireBytes:
        """Give the elements as they are; unless they are strings, as a view that is made once for each shape."""
        if self._kept is not None or self.element_type.is_string:
            return super().wire_data()
        if self._wire is None:
            self._wire = self._show_wire()
        return self._wire

    def load_wire(self, shape: tuple[int, ...], data: Buffer) -> None:
        """Take the shape and the elements of a message; if the shape stays, by copying bytes."""
        if shape == self.shape and not self.element_type.is_string:
            view = self._bytes or self._view_bytes()
            if len(data) == len(view) and not view.readonly:
                if self._kept is not None:
                    self._set_kept(None)
                view[:] = data
                return
        super().load_wire(shape, data)

    def load(self, elements: Array, shape: tuple[int, ...]) -> None:
        """Take a shape and the elements, without fetching the previous ones."""
        self._set_kept(None)
        self._reshape(shape)
        np.copyto(self._array, elements)

    def mark_as_input(self) -> None:
        """Let the next elements stay on the server, unless the program has read some here."""
        if self._home is Home.UNDECIDED:
            self._set_home(Home.SERVER)

    def kept_by(self, transport: Transport) -> KeptPart | None:
        """Where the server has the elements, if they are not here."""
        kept = self._kept
        if kept is None or kept.tensor.transport is not transport:
            return None
        return KeptPart(kept.tensor, StoredBox(kept.tensor.id))

    def reserve_output(self, transport: Transport, *, postpone: bool) -> KeptTensor | None:
        """Give a tensor on the server for the next output if that may stay there; drop the present elements for it."""
        if self._home is _HERE or (self._home is Home.UNDECIDED and not postpone):
            return None
        self._set_kept(None)
        if self._kept_tensors is None:
            self._kept_tensors = KeptTensors()
        return self._kept_tensors.next(transport)

    def take_kept(self, elements: KeptElements) -> None:
        """Take elements that stay on the server."""
        self._reshape(elements.shape)
        self._set_kept(elements)

    def fetcher(self, *, share: bool) -> Callable[[], Array] | None:
        """Give a function that fetches the present elements for a copy, or those at the time of its call for a view."""
        if self._kept is None or self._kept.is_fetched:
            return None
        return self.pin if share else partial(self._copy, self._kept)

    def _region(self, begin: tuple[int, ...], end: tuple[int, ...]) -> Region:
        """Share a box of it."""
        box = tuple(map(slice, begin, end))
        return Region(self, begin, self._array[box] if box else self._array)

    def _copy(self, elements: KeptElements) -> Array:
        self._set_home(_HERE)
        return elements.fetch().copy()

    def _set_kept(self, kept: KeptElements | None) -> None:
        """Note which elements the server keeps; None if they are here."""
        if kept is not self._kept:
            self._kept = kept
            self._count_change()

    def _set_home(self, home: Home) -> None:
        """Note where the next elements belong."""
        if home is not self._home:
            self._home = home
            self._count_change()

    def _count_change(self) -> None:
        if self.version is not None:
            self.version += 1

    def _reshape(self, shape: tuple[int, ...]) -> None:
        if shape == self.shape:
            return
        if self._capacity is not None and prod(shape) > self._capacity:
            raise RuntimeError(
                "Check 'shape_size(new_shape) <= ov::shape_size(m_capacity)' failed: "
                f"Could set new shape: {shape_text(shape)}: the tensor shares memory of {self._capacity} elements"
            )
        if units_of(self.element_type, shape) > self._buffer.size:
            self._buffer = self._make_room(shape)
        self._array = shaped(self.element_type, shape, self._buffer)
        self._bytes = self._wire = None
        self.shape = shape
        self._count_change()

    def _make_room(self, shape: tuple[int, ...]) -> Array:
        """Make a buffer for a shape."""
        return new_buffer(self.element_type, shape)

    def _show_wire(self) -> memoryview:
        """Show the elements, which are no strings, as a buffer to be sent."""
        return self._view_bytes().toreadonly()

    def _view_bytes(self) -> memoryview:
        """Show the elements, which are no strings, as bytes, until the shape changes."""
        if self._bytes is None:
            self._bytes = self._array.reshape(-1).view(np.uint8).data
        return self._bytes


class Region(Memory):
    """A box inside another tensor's memory, with that tensor's strides."""

    __slots__ = ("_array", "_begin", "_root", "_root_shape", "_whole")

    def __init__(self, root: Dense, begin: tuple[int, ...], whole: Array) -> None:
        super().__init__(root.element_type, whole.shape)
        self._root = root
        self._root_shape = root.shape
        self._begin = begin
        self._whole = whole
        self._array = whole

    @property
    def array(self) -> Array:
        """The elements in the box. The whole is kept here from now on, since a view of the box is one of the whole."""
        self._root.pin()
        return self._array

    def read(self) -> Array:
        """Give the elements in the box, fetching the whole if only the server has it."""
        self._root.read()
        return self._array

    def write(self, elements: Array) -> None:
        """Set the elements in the box; those around it stay."""
        self._root.read()
        self._array[...] = elements

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart neighbours are in the tensor that this is a region of."""
        return tuple(stride * _spread(self.element_type) for stride in self._whole.strides)

    @property
    def is_continuous(self) -> bool:
        """Whether the box happens to have no gaps."""
        return bool(self._array.flags.c_contiguous)

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Take a shape of the same rank that lies within the region."""
        if len(shape) != self._whole.ndim:
            raise RuntimeError(
                f"Check 'new_shape.size() >= m_shape.size()' failed: "
                f"Cannot set new shape: {shape_text(shape)} for ROI tensor of rank {self._whole.ndim}!"
            )
        for index in reversed(range(len(shape))):  # openvino tells of the last that does not fit
            if shape[index] > self._whole.shape[index]:
                raise RuntimeError(
                    f"Cannot set new shape: {shape_text(shape)} for ROI tensor! "
                    f"New dimension at index: {index} is not compatible."
                )
        self._array = self._whole[tuple(map(slice, shape))] if shape else self._whole
        self.shape = shape

    def mark_as_input(self) -> None:
        """Let the whole stay on the server."""
        self._root.mark_as_input()

    def kept_by(self, transport: Transport) -> KeptPart | None:
        """Where the server has the box, if the whole still has the shape that the box was made in."""
        whole = self._root.kept_by(transport)
        if whole is None or self._root.shape != self._root_shape:
            return None
        end = tuple(start + size for start, size in zip(self._begin, self.shape, strict=True))
        return KeptPart(whole.tensor, StoredBox(whole.tensor.id, self._begin, end))

    def fetcher(self, *, share: bool) -> Callable[[], Array] | None:
        """Give a function that fetches the whole for a copy of the box, if the whole still has its shape."""
        fetch = None if share or self._root.shape != self._root_shape else self._root.fetcher(share=False)
        if fetch is None:
            return None
        box = tuple(slice(start, start + size) for start, size in zip(self._begin, self.shape, strict=True))
        return lambda: fetch()[*box, ...].copy()

    def _region(self, begin: tuple[int, ...], end: tuple[int, ...]) -> Region:
        """Share a box of the box."""
        box = tuple(map(slice, begin, end))
        inside = tuple(start + offset for start, offset in zip(self._begin, begin, strict=True))
        return Region(self._root, inside, self._array[box] if box else self._array)


def allocate(element_type: ElementType, shape: tuple[int, ...]) -> Dense:
    """Make memory of a tensor's own. Its content is not set, but for strings, which are empty.

    Raises:
        RuntimeError: If there is not that much memory.
    """
    return Dense(element_type, shape, new_buffer(element_type, shape), own=True)


def _spread(element_type: ElementType) -> int:
    """How many bytes in OpenVINO one byte here stands for: OpenVINO's string objects are larger."""
    return 32 // np.dtype(object).itemsize if element_type.is_string else 1
