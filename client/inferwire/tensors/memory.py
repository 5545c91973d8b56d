"""The memory behind tensors: elements of one type under a shape that may change.

Owns how bytes are laid out, when they move, and whether they are here or still on the server. Users meet it
as `inferwire.Tensor`, which adds OpenVINO's interface and no storage of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from inferwire.tab_completion import TabCompleted
from inferwire.tensors.element_arrays import Array, array_from_wire, array_to_wire
from inferwire.tensors.kept_tensors import KeptElements, KeptPart, KeptTensor
from inferwire.transport.executions import WireBytes
from inferwire.transport.protocol import Transport
from inferwire_proto.element_types import ElementType
from inferwire_proto.strings import Buffer


class Memory(ABC):
    """Elements under a shape.

    Attributes:
        element_type: What the elements are.
        shape: The current shape, in elements.
        version: As long as it is unchanged, so are the shape, the buffer in wire form, and what the server keeps; the
            values of the elements may change. None if these have to be asked for each time.
    """

    __slots__ = ("element_type", "shape", "version")

    def __init__(self, element_type: ElementType, shape: tuple[int, ...], version: int | None = None) -> None:
        self.element_type = element_type
        self.shape = shape
        self.version = version

    @property
    @abstractmethod
    def array(self) -> Array:
        """The elements, as an array that the caller may keep and write to, which writes to the tensor.

        Packed types show a flat run of bytes, strings an array of bytes objects, all others their shape.
        """

    @abstractmethod
    def read(self) -> Array:
        """Give the elements as `array` does, for a caller that reads them at once and does not keep the array."""

    @abstractmethod
    def write(self, elements: Array) -> None:
        """Set all elements, of the present shape."""

    @abstractmethod
    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Take another shape, keeping the memory if it is large enough.

        Raises:
            RuntimeError: If the memory is too small and not this tensor's own.
        """

    @property
    @abstractmethod
    def strides(self) -> tuple[int, ...]:
        """How many bytes apart neighbours along each axis are, strings taking 32 bytes each."""

    @property
    @abstractmethod
    def is_continuous(self) -> bool:
        """Whether the elements lie without gaps."""

    def region(self, begin: tuple[int, ...], end: tuple[int, ...]) -> Memory:
        """Share the box from `begin` up to, not with, `end`.

        Raises:
            RuntimeError: If the box does not lie in the memory, or elements share bytes.
        """
        if len(begin) != len(self.shape):
            raise RuntimeError(
                "Check 'tensor_shape.size() == begin.size()' failed: "
                f"begin has {len(begin)} dimensions, expected {len(self.shape)}"
            )
        if len(begin) != len(end):
            raise RuntimeError(
                f"Check 'begin.size() == end.size()' failed: end has {len(end)} dimensions, expected {len(begin)}"
            )
        for start, stop, size in zip(begin, end, self.shape, strict=True):
            _check_interval(start, stop, size)
        refuse_packed(self.element_type)
        return self._region(begin, end)

    @abstractmethod
    def _region(self, begin: tuple[int, ...], end: tuple[int, ...]) -> Memory:
        """Share a box that lies in it."""

    def wire_data(self) -> WireBytes:
        """Give the elements as inferwire's wire carries them: read-only, little-endian, without gaps, strings packed.

        A view of the memory wherever that has no gaps, so that later writes to the memory show.
        """
        return array_to_wire(self.element_type, self.read())

    def wire_fetcher(self) -> Callable[[], WireBytes] | None:
        """Give a function that fetches the elements in wire form, as `fetcher` does; None if they are here."""
        fetch = self.fetcher(share=False)
        return None if fetch is None else lambda: array_to_wire(self.element_type, fetch())

    def load_wire(self, shape: tuple[int, ...], data: Buffer) -> None:
        """Take the shape and the elements of a message.

        Raises:
            ValueError: If the data does not have as many bytes as the shape needs.
            RuntimeError: As `set_shape` does.
        """
        self.load(array_from_wire(self.element_type, shape, data), shape)

    def load(self, elements: Array, shape: tuple[int, ...]) -> None:
        """Take a shape and the elements.

        Raises:
            RuntimeError: As `set_shape` does.
        """
        self.set_shape(shape)
        self.write(elements)

    @abstractmethod
    def mark_as_input(self) -> None:
        """Note that a request reads its input here: elements that only the server needs may stay there."""

    def kept_by(self, transport: Transport) -> KeptPart | None:
        """Where the server of a transport has these very elements, if it does."""
        del transport
        return None

    def reserve_output(self, transport: Transport, *, postpone: bool) -> KeptTensor | None:
        """Give the tensor in which a server is to keep the output that lands here next; None to have it sent.

        Args:
            transport: Calls the server that is about to make the output.
            postpone: Whether an output that the program has never read is to stay there.
        """
        del transport, postpone
        return None

    def take_kept(self, elements: KeptElements) -> None:
        """Take elements that the server kept in the reserved tensor."""
        raise RuntimeError(f"the server kept {elements}, which was to be sent; this is a bug")

    def fetcher(self, *, share: bool) -> Callable[[], Array] | None:
        """Give a function that fetches the elements when a result is first read, on any thread; None if they are here.

        Args:
            share: Whether the result is a view of the memory, and not a copy of what is there now.
        """
        del share
        return None


class OverMemory(TabCompleted):
    """An object that users hold and that shows memory."""

    __slots__ = ("__weakref__", "_memory")

    _own_use = frozenset({"memory", "over"})

    _memory: Memory

    @property
    def memory(self) -> Memory:
        """What holds the elements; for the SDK's own use, not in openvino."""
        return self._memory


def refuse_packed(element_type: ElementType) -> None:
    """Refuse types whose elements share bytes, so that no stride leads to one of them.

    Raises:
        RuntimeError: For such a type.
    """
    if element_type.is_packed:
        raise RuntimeError(
            f"Could not get strides for types with bitwidths less then 8 bit. Tensor type: {element_type.name}"
        )


def _check_interval(start: int, stop: int, size: int) -> None:
    if start > size:
        raise RuntimeError(f"Check '*roi_begin <= *max_dim' failed: the region begins at {start} of {size}")
    if stop > size:
        raise RuntimeError(f"Check '*roi_end <= *max_dim' failed: the region ends at {stop} of {size}")
    if start > stop:
        raise RuntimeError(f"Check '*roi_dim <= *max_dim' failed: the region begins at {start}, ends at {stop}")
