"""Requests over HTTP whose work is part of their callers' traces."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from inferwire_server.transport.adoption import Adopt


class Adopted:
    """Hands every request on, inside the trace that its headers name."""

    def __init__(self, app: ASGIApp, adopt: Adopt) -> None:
        self._app = app
        self._adopt = adopt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        with self._adopt((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]):
            await self._app(scope, receive, send)


def adopting(app: ASGIApp, adopt: Adopt | None) -> ASGIApp:
    """Put the adoption before an application; nothing where there are no traces."""
    return app if adopt is None else Adopted(app, adopt)
