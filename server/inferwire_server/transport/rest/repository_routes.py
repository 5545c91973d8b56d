"""The Open Inference Protocol's model repository extension over REST: index, load and unload."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from inferwire_server.errors import invalid_input
from inferwire_server.service import Services
from inferwire_server.transport.http.bodies import present, read_object
from inferwire_server.transport.http.responses import json_response
from inferwire_server.transport.oip import repository
from inferwire_server.transport.rest import documentation as doc
from inferwire_server.transport.rest.oip_routes import TAG
from inferwire_server.transport.rest.routes import Route

_MODEL = "/v2/repository/models/{model}"


class RepositoryRoutes:
    """Endpoints that list, load and unload the repository's models."""

    def __init__(self, services: Services, max_body_bytes: int) -> None:
        self._services = services
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Route]:
        """List the endpoints."""
        return [
            Route("POST", ("/v2/repository/index",), self.index, TAG, "List the repository", openapi=doc.INDEX),
            Route("POST", (f"{_MODEL}/load",), self.load, TAG, "Load or reload a model", openapi=doc.LOAD),
            Route("POST", (f"{_MODEL}/unload",), self.unload, TAG, "Unload a model", openapi=doc.UNLOAD),
        ]

    async def index(self, request: Request) -> Response:
        """List every version of every model with its state and the reason for it.

        The body is optional; `ready` in it lists only the versions that are ready.
        """
        ready = (await read_object(request, self._max_body_bytes, self._services.gil_thread)).get("ready", False)
        if not isinstance(ready, bool):
            raise invalid_input(f"ready is {ready!r}, expected true or false")
        entries = repository.index(self._services, ready_only=ready)
        return json_response(list(map(asdict, entries)))

    async def load(self, request: Request) -> Response:
        """Load or reload a model of the repository; a reload loses no request.

        The answer comes when the model is ready. Needs `--allow-model-control`. The body is optional. Its parameter
        `config` is a model configuration as JSON text, in the form of `GET /v2/models/{model}/config`; it overrides
        the model's own settings until the model is loaded again.
        """
        parameters = await self._parameters(request)
        await repository.load(self._services, request.path_params["model"], parameters)
        return Response()

    async def unload(self, request: Request) -> Response:
        """Unload a model: refuse new inferences, wait until those under way have ended, free the model, and answer.

        Unloading an unknown model does nothing and answers 200, as with Triton. Needs `--allow-model-control`. The
        body is optional.
        """
        await self._parameters(request)
        await self._services.models.unload(request.path_params["model"])
        return Response()

    async def _parameters(self, request: Request) -> dict[str, Any]:
        parameters: object = (await read_object(request, self._max_body_bytes, self._services.gil_thread)).get(
            "parameters", {}
        )
        if not isinstance(parameters, dict):
            raise invalid_input("the body's parameters are no JSON object, expected one or none")
        return present(cast("dict[str, Any]", parameters))
