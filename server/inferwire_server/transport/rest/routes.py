"""Routes of raw endpoints: a request in, a response out, nothing of the framework between.

FastAPI would solve dependencies and validate on every call. Here it only writes down, in the
OpenAPI document, what the endpoints take and give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastapi.routing import APIRoute
from starlette import routing
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from inferwire_server.errors import shutting_down
from inferwire_server.service.refusals import Interface, Refusals
from inferwire_server.transport.error_translation import as_serving_error
from inferwire_server.transport.http.exchange import where_of
from inferwire_server.transport.http.responses import error_response
from inferwire_server.transport.rest.documentation import ERRORS, PATH_PARAMETERS

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint and how it is documented; its docstring is the description.

    Attributes:
        paths: Where it is reached.
        openapi: What the OpenAPI document says beyond the summary, as OpenAPI writes it: its answers at least.
        status: The status of success.
        hidden: Paths that work alike and are not documented twice.
        is_safe: Whether a GET changes nothing whatever it asks for, so that HEAD is answered as well.
        is_quick: Whether it is called so often that it is looked up before all others, past the framework.
    """

    method: str
    paths: tuple[str, ...]
    endpoint: Endpoint
    tag: str
    summary: str
    openapi: dict[str, Any]
    status: int = 200
    hidden: tuple[str, ...] = ()
    is_safe: bool = True
    is_quick: bool = False

    def api_routes(self, refusals: Refusals) -> list[APIRoute]:
        """Give one route for each path; requests that they refuse are counted."""
        return [RawRoute(self, path, refusals) for path in (*self.paths, *self.hidden)]


class RawRoute(APIRoute):
    """A route that calls its endpoint and turns whatever it raises into an answer."""

    def __init__(self, route: Route, path: str, refusals: Refusals) -> None:
        super().__init__(
            path,
            route.endpoint,
            methods=[route.method],
            tags=[route.tag],
            summary=route.summary,
            status_code=route.status,
            response_class=Response,
            response_model=None,
            operation_id=_name(route, path),
            openapi_extra=_documented(route, path),
            include_in_schema=path not in route.hidden,
        )
        self.is_safe = route.is_safe
        self._call = route.endpoint
        self._refusals = refusals
        self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self._call(request)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            # The grace of a drain is over. The task ends here either way, and its caller is told.
            response = error_response(shutting_down())
        except Exception as error:  # noqa: BLE001 - a caller gets an answer whatever went wrong
            response = self._refusal(error, scope)
        await response(scope, receive, send)

    def _refusal(self, error: Exception, scope: Scope) -> Response:
        where = where_of(scope)
        refusal = as_serving_error(error, **where)
        self._refusals.count(Interface.REST, refusal, where)
        return error_response(refusal)


def head_routes(routes: Sequence[BaseRoute]) -> list[routing.Route]:
    """Make what answers HEAD as these routes answer GET. Their bodies are made, and left out by the connection."""
    return [
        _of_head(route)
        for route in routes
        if isinstance(route, routing.Route)
        and "GET" in (route.methods or ())
        and "HEAD" not in (route.methods or ())
        and not (isinstance(route, RawRoute) and not route.is_safe)
    ]


def _of_head(route: routing.Route) -> routing.Route:
    head = copy(route)
    head.methods = {"HEAD"}
    head.include_in_schema = False
    return head


def _name(route: Route, path: str) -> str:
    """Name a call as programs that are generated from the document do: `infer`, `infer_version`."""
    in_first, in_path = (routing.compile_path(each)[2] for each in (route.paths[0], path))
    return "_".join([route.endpoint.__name__, *(name for name in in_path if name not in in_first)])


def _documented(route: Route, path: str) -> dict[str, Any]:
    """Add what follows from the path itself, and the errors every call can end in."""
    in_path = [PATH_PARAMETERS[name] for name in routing.compile_path(path)[2]]
    parameters = [*in_path, *route.openapi.get("parameters", ())]
    responses = {**route.openapi["responses"], **ERRORS}
    return {**route.openapi, "responses": responses} | ({"parameters": parameters} if parameters else {})
