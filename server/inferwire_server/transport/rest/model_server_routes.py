"""What OpenVINO Model Server's operators call: the state of the configured models, and reading the file again."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from inferwire_proto.openvino_errors import without_places
from inferwire_server.core.version_states import VersionState
from inferwire_server.service import Services
from inferwire_server.service.models import Served
from inferwire_server.transport.http.responses import json_response
from inferwire_server.transport.rest import documentation as doc
from inferwire_server.transport.rest.routes import Route

TAG = "OpenVINO Model Server"

STATES = {
    VersionState.LOADING: "LOADING",
    VersionState.WARMING: "LOADING",
    VersionState.READY: "AVAILABLE",
    VersionState.DRAINING: "UNLOADING",
    VersionState.UNLOADED: "END",
    VersionState.FAILED: "LOADING",
}
"""Its words for states. A model that failed is one that goes on loading there, with an error beside it."""


class ModelServerRoutes:
    """Endpoints under the paths that it has."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        """List the endpoints."""
        return [
            Route("GET", ("/v1/config",), self.config, TAG, "List the models' states", openapi=doc.CONFIG),
            Route("POST", ("/v1/config/reload",), self.reload, TAG, "Load what has changed", openapi=doc.RELOAD),
        ]

    async def config(self, _request: Request) -> Response:
        """Give the state of every version of every model, in OpenVINO Model Server's words."""
        return json_response(self._statuses())

    async def reload(self, _request: Request) -> Response:
        """Read the configuration or the repository again, and load and unload what has changed.

        No request is lost. The answer comes when all is done: 201, or 200 if nothing had changed. Needs
        `--allow-model-control`.
        """
        has_changed = await self._services.models.sync()
        return json_response(self._statuses(), 201 if has_changed else 200)

    def _statuses(self) -> dict[str, Any]:
        models: dict[str, Any] = {}
        for served in self._services.models.statuses():
            models.setdefault(served.name, {"model_version_status": []})["model_version_status"].append(_status(served))
        return models


def _status(served: Served) -> dict[str, Any]:
    has_failed = served.state is VersionState.FAILED
    state = "AVAILABLE" if served.takes_jobs else STATES[served.state]
    message = without_places(served.reason) if has_failed else "OK"
    status = {"error_code": "UNKNOWN" if has_failed else "OK", "error_message": message}
    return {"version": served.version, "state": state, "status": status}
