"""The Open Inference Protocol's logging and trace extensions over REST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from inferwire_server.errors import invalid_input
from inferwire_server.service import Services
from inferwire_server.transport.http.bodies import read_object
from inferwire_server.transport.http.responses import json_response
from inferwire_server.transport.oip.logs import log_settings, set_log_settings
from inferwire_server.transport.oip.tracing import set_trace_settings, trace_settings
from inferwire_server.transport.rest import documentation as doc
from inferwire_server.transport.rest.json_elements import json_kind
from inferwire_server.transport.rest.oip_routes import TAG
from inferwire_server.transport.rest.routes import Route

_LOGGING = ("/v2/logging",)
_TRACE = ("/v2/trace/setting", "/v2/models/{model}/trace/setting")


class LogRoutes:
    """Endpoints that say what is logged and traced."""

    def __init__(self, services: Services, max_body_bytes: int) -> None:
        self._services = services
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Route]:
        """List the endpoints."""
        return [
            Route("GET", _LOGGING, self.logging, TAG, "What is logged?", openapi=doc.LOG_SETTINGS),
            Route("POST", _LOGGING, self.set_logging, TAG, "Change what is logged", openapi=doc.SET_LOG_SETTINGS),
            Route("GET", _TRACE, self.tracing, TAG, "What is traced?", openapi=doc.TRACE_SETTINGS),
            Route("POST", _TRACE, self.set_tracing, TAG, "Leave traces as they are", openapi=doc.SET_TRACE_SETTINGS),
        ]

    async def logging(self, _request: Request) -> Response:
        """Give the levels at which events are logged."""
        return json_response(log_settings(self._services))

    async def set_logging(self, request: Request) -> Response:
        """Change the level from which on events are logged, and give the settings in force.

        Turning a level on also turns on the more urgent ones. Needs `--allow-log-settings`, unless nothing is given.
        """
        set_log_settings(self._services, await read_object(request, self._max_body_bytes, self._services.gil_thread))
        return json_response(log_settings(self._services))

    async def tracing(self, request: Request) -> Response:
        """Give the trace settings: `trace_level` is TIMESTAMPS where the server sends traces, else OFF."""
        return json_response(_as_json(trace_settings(self._services, request.path_params.get("model", ""))))

    async def set_tracing(self, request: Request) -> Response:
        """Accept settings that are in force already, and no others: what is traced is the server's `--traces`."""
        body = await read_object(request, self._max_body_bytes, self._services.gil_thread)
        given = {name: _texts(name, value) for name, value in body.items()}
        model = request.path_params.get("model", "")
        return json_response(_as_json(set_trace_settings(self._services, given, model)))


def _as_json(settings: Mapping[str, Sequence[str]]) -> dict[str, str | Sequence[str]]:
    """Write trace settings as Triton does over HTTP: of levels there may be several, of all else there is one."""
    return {name: values if name == "trace_level" else values[0] for name, values in settings.items()}


def _texts(name: str, value: Any) -> list[str]:
    """Read a trace setting: a text or several."""
    values = cast("list[object]", value if isinstance(value, list) else [value])
    for each in values:
        if not isinstance(each, str):
            raise invalid_input(f"trace setting '{name}' has {json_kind(each)}, expected strings")
    return cast("list[str]", values)
