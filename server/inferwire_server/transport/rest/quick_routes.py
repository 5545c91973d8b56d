"""Routes that are looked at before the framework is: those whose calls take less time than its middleware does."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send


class QuickRoutes:
    """Answers what one of its routes fits, and hands all else on.

    Its routes answer whatever goes wrong themselves, and take their parameters as they are in the path: texts.
    """

    def __init__(self, routes: Sequence[Route], app: ASGIApp) -> None:
        self._routes = [(route.path_regex.match, route.methods or (), route.app) for route in routes]
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        for match, methods, answer in self._routes:
            if (found := match(scope["path"])) is not None and scope["method"] in methods:
                scope["path_params"] = found.groupdict()
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)
