"""The devices, their queues and their properties."""

from __future__ import annotations

from dataclasses import dataclass

from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.engine.backend import PluginVersion
from inferwire_server.engine.engine import Engine
from inferwire_server.errors import ServingError
from inferwire_server.service.forbidden_properties import refuse_forbidden
from inferwire_server.service.names import check_device


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """One device now."""

    name: str
    full_name: str
    occupancy: Occupancy
    queue_capacity: int


class DeviceService:
    """Describes what models can be compiled for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self) -> list[DeviceStatus]:
        """List the devices in the runtime's order."""
        return [
            DeviceStatus(device.name, await self._full_name(device.name), device.occupancy, device.queue_capacity)
            for device in self._engine.devices
        ]

    async def get_property(self, device: str, name: str) -> PropertyValue:
        """Read a property of a device, or of the runtime where `device` is empty.

        Raises:
            ServingError: INVALID_INPUT or UNSUPPORTED_TYPE with the runtime's reason.
        """
        check_device(device)
        return await self._engine.reading.run(self._engine.backend.device_property, device, name)

    async def check_properties(self, device: str, properties: Properties) -> Properties:
        """Give properties as a device would take them, or the runtime where `device` is empty; set none.

        Raises:
            ServingError: PERMISSION_DENIED, or INVALID_INPUT with the runtime's reason.
        """
        check_device(device)
        refuse_forbidden(properties)
        return await self._engine.reading.run(self._engine.backend.check_properties, device, properties)

    @property
    def extensions(self) -> tuple[str, ...]:
        """The file names of the libraries of operations that the operator has the server load."""
        return self._engine.backend.extensions

    async def get_versions(self, device: str) -> dict[str, PluginVersion]:
        """Read the plugin versions behind a device name; none for an unknown one.

        Raises:
            ServingError: INVALID_INPUT with the runtime's reason.
        """
        check_device(device)
        return await self._engine.reading.run(self._engine.backend.versions, device)

    async def _full_name(self, device: str) -> str:
        try:
            return str(await self.get_property(device, "FULL_DEVICE_NAME"))
        except ServingError:
            return device
