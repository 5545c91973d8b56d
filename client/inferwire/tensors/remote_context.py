"""What makes tensors on the server: `RemoteContext`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from inferwire.arguments import Unpicklable, as_sizes, incompatible
from inferwire.tensors.dense_memory import allocate
from inferwire.tensors.kept_tensors import KeptTensor
from inferwire.tensors.remote_memory import RemoteMemory
from inferwire.tensors.remote_tensor import RemoteTensor
from inferwire.tensors.tensor import Tensor
from inferwire.transport.protocol import Transport
from inferwire.values.ov_any import OVAny
from inferwire.values.shapes import Shape
from inferwire.values.types import Type, as_type, element_type_of

_OWN_CONTEXT = ("AUTO", "MULTI", "HETERO", "BATCH")


class RemoteContext(Unpicklable):
    """Makes tensors on the server. Mirrors `openvino.RemoteContext`.

    Given by `Core.create_context` and `Core.get_default_context`. What it makes belongs to the `Core`'s session:
    the server bounds it, and frees it with the session at the latest.

    Differs from OpenVINO: every device has one, CPU too, and none takes properties.

    Example:
        >>> context = core.get_default_context("CPU")
        >>> context.create_tensor(ov.Type.f32, [1, 3, 224, 224], {})
        <RemoteTensor: shape[1,3,224,224] type: f32>
    """

    def __init__(self, transport: Transport, device: str) -> None:
        self._transport = transport
        self._device = device

    def __repr__(self) -> str:
        return f"<RemoteContext: {self._device} of {self._transport.address}>"

    def get_device_name(self) -> str:
        """Give the device. Mirrors `openvino.RemoteContext.get_device_name`."""
        return self._device

    def get_params(self) -> dict[str, OVAny]:
        """Give what the device says of the context, which is nothing. Mirrors `openvino.RemoteContext.get_params`."""
        return {}

    def create_tensor(
        self,
        type: Type,  # noqa: A002 - openvino's name
        shape: Shape | Sequence[SupportsIndex],
        properties: Mapping[str, Any] | None = None,
    ) -> RemoteTensor:
        """Make a tensor of zeros, or of empty strings, on the server. Mirrors `openvino.RemoteContext.create_tensor`.

        Args:
            type: The type of its elements.
            shape: Its shape, in elements.
            properties: None are known; openvino's are of memory that exists already.

        Raises:
            TypeError: For other arguments.
            RuntimeError: For properties, or if the server keeps no more for this client, as `inferwire.TooLarge`.
        """
        known, sizes = as_type(type), as_sizes(shape)
        if known is None or sizes is None or not isinstance(properties, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "(self: RemoteContext, type: Type, shape: Shape, properties: Mapping[str, object])"
            raise incompatible("create_tensor", signature, invoked=(self, type, shape, properties))
        _refuse_properties(properties)
        element_type = element_type_of(known)
        tensor = KeptTensor(self._transport)
        self._transport.tensors.create(tensor.id, element_type, sizes)
        return RemoteTensor.over(RemoteMemory(tensor, element_type, sizes), self._device)

    def create_host_tensor(
        self,
        type: Type,  # noqa: A002 - openvino's name
        shape: Shape | Sequence[SupportsIndex],
    ) -> Tensor:
        """Make a tensor here, as `Tensor` does. Mirrors `openvino.RemoteContext.create_host_tensor`.

        Args:
            type: The type of its elements, which are not set.
            shape: Its shape, in elements.

        Raises:
            TypeError: For other arguments.
        """
        known, sizes = as_type(type), as_sizes(shape)
        if known is None or sizes is None:
            signature = "(self: RemoteContext, type: Type, shape: Shape)"
            raise incompatible("create_host_tensor", signature, invoked=(self, type, shape))
        return Tensor.over(allocate(element_type_of(known), sizes))


def context_of(transport: Transport, device: str, properties: Mapping[str, Any] | None = None) -> RemoteContext:
    """Make the context of a device.

    Raises:
        RuntimeError: If the server has no such device, or it is one that stands for others; for properties.
    """
    for name in _OWN_CONTEXT:
        if device.partition(":")[0] == name:
            raise RuntimeError(f"{name} device does not support default remote context")
    devices = transport.devices()
    if device not in devices and f"{device}.0" not in devices:
        raise RuntimeError(
            f'Device with "{device}" name is not registered in the OpenVINO Runtime of the server at '
            f"{transport.address}, which has {', '.join(devices)}"
        )
    _refuse_properties(properties)
    return RemoteContext(transport, device)


def _refuse_properties(properties: Mapping[str, Any] | None) -> None:
    if properties:
        raise RuntimeError(
            f"the properties {', '.join(map(repr, properties))} are about memory that exists already, expected none: "
            "tensors are made on the server"
        )
