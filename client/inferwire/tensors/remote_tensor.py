"""Tensors on the server, as programs hold them: `RemoteTensor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, SupportsIndex

from inferwire.arguments import Unpicklable, as_sizes, incompatible
from inferwire.tensors.memory import OverMemory
from inferwire.tensors.remote_memory import RemoteMemory
from inferwire.tensors.tensor import Tensor, as_tensor
from inferwire.values.ov_any import OVAny
from inferwire.values.shapes import Coordinate, Shape


class RemoteTensor(OverMemory, Unpicklable):
    """A tensor on the server, or a region of one. Mirrors `openvino.RemoteTensor`.

    Made by `RemoteContext.create_tensor`; from another and two corners, it is a region that shares the other's
    elements. Any request of the same server takes it as an input without sending a byte, and a whole one as an
    output. The server keeps it as long as this client holds it or a region of it.

    Differs from OpenVINO: CPU has them too; every `set_*tensor` takes them, not only `set_tensor` by name; a request
    gives them back as a `Tensor`, whose `data` is fetched each time and read-only; what is written while an
    inference reads them is for the next.

    Example:
        >>> context = core.get_default_context("CPU")
        >>> picture = context.create_tensor(ov.Type.u8, [1, 480, 640, 3], {})
        >>> picture.copy_from(ov.Tensor(pixels))
        >>> request.set_tensor("image", ov.RemoteTensor(picture, [0, 100, 50, 0], [1, 200, 150, 3]))

    Raises:
        TypeError: For other arguments.
        RuntimeError: For a region outside the tensor, or of a type of less than 8 bits.
    """

    __slots__ = ("_device",)

    def __init__(
        self,
        remote_tensor: RemoteTensor,
        begin: Coordinate | Sequence[SupportsIndex],
        end: Coordinate | Sequence[SupportsIndex],
    ) -> None:
        first, last = as_sizes(begin), as_sizes(end)
        if not isinstance(remote_tensor, RemoteTensor) or first is None or last is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "RemoteTensor(remote_tensor: RemoteTensor, begin: Coordinate, end: Coordinate)"
            raise incompatible("__init__", signature, invoked=(remote_tensor, begin, end))
        self._memory = remote_tensor.memory.region(first, last)
        self._device = remote_tensor.get_device_name()

    @classmethod
    def over(cls, memory: RemoteMemory, device: str) -> RemoteTensor:
        """Make one over what the server keeps; not in openvino."""
        tensor = object.__new__(cls)
        tensor._memory = memory
        tensor._device = device
        return tensor

    def __repr__(self) -> str:
        return f"<RemoteTensor: shape{self.get_shape()} type: {self._memory.element_type.name}>"

    def get_shape(self) -> Shape:
        """Give the shape. Mirrors `openvino.RemoteTensor.get_shape`."""
        return Shape(self._memory.shape)

    def get_byte_size(self) -> int:
        """Give the bytes of its elements. Mirrors `openvino.RemoteTensor.get_byte_size`."""
        return Tensor.over(self._memory).byte_size

    def get_device_name(self) -> str:
        """Give the device of the context that made it. Mirrors `openvino.RemoteTensor.get_device_name`."""
        return self._device

    def get_params(self) -> dict[str, OVAny]:
        """Give what the device says of its memory, which is nothing. Mirrors `openvino.RemoteTensor.get_params`."""
        return {}

    def copy_from(self, source_tensor: RemoteTensor | Tensor) -> None:
        """Take the elements of another tensor, and its shape unless this is a region.

        Mirrors `openvino.RemoteTensor.copy_from`. From a `Tensor` the elements travel; from one on the server, nothing.

        Args:
            source_tensor: A tensor of the same element type; of the same shape if this is a region.

        Raises:
            TypeError: For what is no tensor.
            RuntimeError: For another element type, for another shape if this is a region, and if the server
                keeps no more for this client.
        """
        source = as_tensor(source_tensor)
        if source is None:
            raise incompatible("copy_from", *_copy_signatures("source_tensor"), invoked=(self, source_tensor))
        Tensor.over(self._memory).copy_from(source)

    def copy_to(self, target_tensor: RemoteTensor | Tensor) -> None:
        """Give the elements to another tensor, and the shape unless that is a region.

        Mirrors `openvino.RemoteTensor.copy_to`.

        Raises:
            TypeError: For what is no tensor.
            RuntimeError: As `copy_from`.
        """
        target = as_tensor(target_tensor)
        if target is None:
            raise incompatible("copy_to", *_copy_signatures("target_tensor"), invoked=(self, target_tensor))
        target.copy_from(Tensor.over(self._memory))

    @property
    def data(self) -> NoReturn:
        """Not there, as in openvino: copy the tensor to one that is here. Mirrors `openvino.RemoteTensor.data`.

        Raises:
            NotImplementedError: Always.
        """
        raise _not_here()

    @property
    def bytes_data(self) -> NoReturn:
        """Not there, as in openvino. Mirrors `openvino.RemoteTensor.bytes_data`.

        Raises:
            NotImplementedError: Always.
        """
        raise _not_here()

    @property
    def str_data(self) -> NoReturn:
        """Not there, as in openvino. Mirrors `openvino.RemoteTensor.str_data`.

        Raises:
            NotImplementedError: Always.
        """
        raise _not_here()


def _copy_signatures(name: str) -> tuple[str, str]:
    return f"(self: RemoteTensor, {name}: RemoteTensor)", f"(self: RemoteTensor, {name}: Tensor)"


def _not_here() -> NotImplementedError:
    return NotImplementedError("This function is not implemented.")
