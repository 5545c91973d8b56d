"""The HTTP application: every route, its documentation, and errors that all look alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi_swagger import patch_fastapi  # pyright: ignore[reportMissingTypeStubs] - it has types, but no marker
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.service import Services
from inferwire_server.service.refusals import Interface, Refusals
from inferwire_server.transport.error_translation import as_serving_error
from inferwire_server.transport.http.exchange import where_of
from inferwire_server.transport.http.responses import error_response, problem
from inferwire_server.transport.rest.documentation import (
    DESCRIPTION,
    KEY_NEEDED,
    KEY_SCHEMES,
    SCHEMAS,
    STYLE,
    TAGS,
    TITLE,
)
from inferwire_server.transport.rest.job_routes import JobRoutes
from inferwire_server.transport.rest.key_check import is_keyless
from inferwire_server.transport.rest.log_routes import LogRoutes
from inferwire_server.transport.rest.model_server_routes import ModelServerRoutes
from inferwire_server.transport.rest.oip_routes import OipRoutes
from inferwire_server.transport.rest.repository_routes import RepositoryRoutes
from inferwire_server.transport.rest.routes import Route, head_routes
from inferwire_server.transport.rest.server_routes import ServerRoutes
from inferwire_server.transport.rest.shared_memory_routes import SharedMemoryRoutes

_PAGE = {"tryItOutEnabled": True, "persistAuthorization": True, "filter": True, "displayRequestDuration": True}
"""What the page of the documentation offers."""


class Api(FastAPI):
    """FastAPI with the schemas that the raw routes refer to, and the routes that need to be quick before all of it.

    The quick routes answer whatever goes wrong themselves, and take their parameters as they are in the path: texts.
    """

    def __init__(self, quick: Sequence[routing.Route], refusals: Refusals, *, needs_key: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.refusals = refusals
        self._needs_key = needs_key
        self._quick = [(route.path_regex.match, route.methods or (), route.app) for route in quick]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: by a quick route, or through the framework, which takes as long as a tiny inference."""
        for match, methods, answer in self._quick:
            if (found := match(scope["path"])) is not None and scope["method"] in methods:
                scope["path_params"] = found.groupdict()
                await answer(scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Give the OpenAPI document."""
        document = super().openapi()
        components: dict[str, Any] = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(SCHEMAS)
        if self._needs_key:
            components["securitySchemes"] = KEY_SCHEMES
            document["security"] = KEY_NEEDED
            for path, operations in document["paths"].items():
                if is_keyless(path):
                    for operation in operations.values():
                        operation["security"] = []
        return document


def create_app(services: Services, metrics_text: Callable[[], Awaitable[bytes]], max_body_bytes: int = 64 << 20) -> Api:
    """Build the application over the services; no body may be larger, as it is sent or as it is decompressed."""
    routes = _routes(services, metrics_text, max_body_bytes)
    made = [(route, route.api_routes(services.refusals)) for route in routes]
    app = Api(
        quick=[each for route, api_routes in made if route.is_quick for each in api_routes],
        refusals=services.refusals,
        needs_key=services.access.needs_key,
        title=TITLE,
        description=DESCRIPTION,
        version=services.health.identity.version,
        openapi_tags=TAGS,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    for _, api_routes in made:
        app.router.routes.extend(api_routes)
    # The page comes before the library's, which names this server as its own connection does: behind a proxy that
    # speaks TLS, a browser would not load its scripts.
    app.add_api_route("/docs", _docs, include_in_schema=False)
    # The page's scripts come from here: FastAPI's own would fetch them from the internet.
    patch_fastapi(app, redirect_from_root_to_docs=False)
    app.router.routes.extend(head_routes(app.router.routes))
    app.add_exception_handler(HTTPException, _no_route)
    # What is handled as any exception closes the connection, too.
    app.add_exception_handler(OSError, _bug)
    app.add_exception_handler(Exception, _bug)
    return app


def _routes(services: Services, metrics_text: Callable[[], Awaitable[bytes]], max_body_bytes: int) -> list[Route]:
    """List every route."""
    return [
        *OipRoutes(services, max_body_bytes).routes(),
        *JobRoutes(services, max_body_bytes).routes(),
        *RepositoryRoutes(services, max_body_bytes).routes(),
        *LogRoutes(services, max_body_bytes).routes(),
        *ModelServerRoutes(services).routes(),
        *SharedMemoryRoutes(services, max_body_bytes).routes(),
        *ServerRoutes(services, metrics_text).routes(),
    ]


async def _docs() -> HTMLResponse:
    """Give the page of the API's documentation; all that it loads is named by where it lies beside the page."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=f"{TITLE} - API",
        swagger_js_url="swagger/swagger-ui-bundle.js",
        swagger_css_url="swagger/swagger-ui.css",
        swagger_favicon_url="swagger/favicon-32x32.png",
        swagger_ui_parameters=_PAGE,
    )
    return HTMLResponse(bytes(page.body).replace(b"</head>", f"{STYLE}</head>".encode(), 1))


async def _no_route(request: Request, error: Exception) -> Response:
    """Answer for a path or a method that is not there."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    allowed = ", ".join(_methods(request)) if status == HTTPStatus.METHOD_NOT_ALLOWED else ""
    path = request.url.path
    if allowed:
        expected = f"expected {allowed}"
    elif path.startswith("/v1/models/"):
        expected = "as is none of TensorFlow Serving's API: the Open Inference Protocol is, below /v2"
    else:
        expected = "see /docs for what is"
    refusal = ServingError(Code.UNIMPLEMENTED, f"{request.method} {path} is not offered here, {expected}")
    _count(request, refusal)
    return problem(status, refusal.code, refusal.message, {"Allow": allowed} if allowed else None)


def _methods(request: Request) -> list[str]:
    """List the methods that a path has, whichever route has them."""
    path: str = request.scope["path"]
    routes = [route for route in request.app.router.routes if isinstance(route, routing.Route)]
    return sorted({method for route in routes if route.path_regex.match(path) for method in route.methods or ()})


async def _bug(request: Request, error: Exception) -> Response:
    refusal = as_serving_error(error, **where_of(request.scope))
    _count(request, refusal)
    return error_response(refusal)


def _count(request: Request, error: ServingError) -> None:
    app: Api = request.app
    app.refusals.count(Interface.REST, error, where_of(request.scope))
