"""DeviceService of inferwire.v1."""

from __future__ import annotations

from inferwire_proto.inferwire.v1 import devices_pb2 as pb
from inferwire_server.service import Services
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.v1_descriptions import decode_properties, encode_property


class DeviceCalls:
    """Answers the calls of DeviceService."""

    def __init__(self, services: Services) -> None:
        self._devices = services.devices

    async def list_devices(self, _request: pb.ListDevicesRequest, _: Context) -> pb.ListDevicesResponse:
        """List the devices with the depth of their queues."""
        devices = [
            pb.Device(
                name=device.name,
                full_name=device.full_name,
                running=device.occupancy.running,
                queued=device.occupancy.queued,
                queue_capacity=device.queue_capacity,
            )
            for device in await self._devices.list()
        ]
        return pb.ListDevicesResponse(devices=devices)

    async def get_property(self, request: pb.GetPropertyRequest, _: Context) -> pb.GetPropertyResponse:
        """Read one property of a device or of the runtime."""
        value = await self._devices.get_property(request.device, request.name)
        return pb.GetPropertyResponse(value=encode_property(request.name, value))

    async def check_properties(self, request: pb.CheckPropertiesRequest, _: Context) -> pb.CheckPropertiesResponse:
        """Read properties as a device would take them."""
        taken = await self._devices.check_properties(request.device, decode_properties(request.properties))
        return pb.CheckPropertiesResponse(
            properties={name: encode_property(name, value) for name, value in taken.items()}
        )

    async def list_extensions(self, _request: pb.ListExtensionsRequest, _: Context) -> pb.ListExtensionsResponse:
        """List the libraries of operations that the server has loaded."""
        return pb.ListExtensionsResponse(names=self._devices.extensions)

    async def get_versions(self, request: pb.GetVersionsRequest, _: Context) -> pb.GetVersionsResponse:
        """Read the versions of the plugins behind a device name."""
        versions = await self._devices.get_versions(request.device)
        return pb.GetVersionsResponse(
            versions={
                device: pb.PluginVersion(description=version.description, build_number=version.build_number)
                for device, version in versions.items()
            }
        )
