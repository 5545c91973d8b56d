"""What an operator or a newcomer looks at: the landing page, metrics, devices and models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from inferwire_proto.openvino_errors import without_places
from inferwire_server.service import Services
from inferwire_server.transport.http.responses import json_response
from inferwire_server.transport.rest import documentation as doc
from inferwire_server.transport.rest.routes import Route

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
TAG = "Server"


class ServerRoutes:
    """Endpoints that describe the server."""

    def __init__(self, services: Services, metrics_text: Callable[[], Awaitable[bytes]]) -> None:
        self._services = services
        self._metrics_text = metrics_text

    def routes(self) -> list[Route]:
        """List the endpoints."""
        return [
            Route("GET", ("/",), self.landing, TAG, "Where to go from here", openapi=doc.LANDING),
            Route("GET", ("/metrics",), self.metrics, TAG, "Metrics for Prometheus", openapi=doc.METRICS),
            Route("GET", ("/inferwire/v1/devices",), self.devices, TAG, "List the devices", openapi=doc.DEVICES),
            Route("GET", ("/inferwire/v1/models",), self.models, TAG, "List the models", openapi=doc.MODELS),
        ]

    async def landing(self, _request: Request) -> Response:
        """Give the server's name and version, and the paths to begin with."""
        identity = self._services.health.identity
        links = {
            "docs": "/docs",
            "openapi": "/openapi.json",
            "ready": "/v2/health/ready",
            "models": "/inferwire/v1/models",
            "devices": "/inferwire/v1/devices",
            "metrics": "/metrics",
        }
        return json_response({"name": identity.name, "version": identity.version, "links": links})

    async def metrics(self, _request: Request) -> Response:
        """Give counters, queue lengths and timings in Prometheus' text format."""
        return Response(await self._metrics_text(), media_type=PROMETHEUS)

    async def devices(self, _request: Request) -> Response:
        """List the devices with their load: running inferences, slots, queued jobs and the queue's capacity."""
        devices = [
            {
                "name": device.name,
                "full_name": device.full_name,
                "running": device.occupancy.running,
                "slots": device.occupancy.slots,
                "queued": device.occupancy.queued,
                "queue_capacity": device.queue_capacity,
            }
            for device in await self._services.devices.list()
        ]
        return json_response({"devices": devices})

    async def models(self, _request: Request) -> Response:
        """List every version of every model of the repository; with the reason if one is not ready, or not reloaded."""
        models: list[dict[str, str]] = []
        for served in self._services.models.statuses():
            model = {"name": served.name, "version": served.version, "state": served.state.value}
            models.append(model | {"reason": without_places(served.reason)} if served.reason else model)
        return json_response({"models": models})
