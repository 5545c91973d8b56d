"""HTTP requests as parts of their callers' traces."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from inferwire_server.transport.http.exchange import exchange_of
from inferwire_server.transport.trace_context import JoinTrace


class Traced:
    """Hands every request on, inside the trace that its headers name."""

    def __init__(self, app: ASGIApp, join_trace: JoinTrace) -> None:
        self._app = app
        self._join_trace = join_trace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        with self._join_trace(headers, exchange_of(scope).request_id):
            await self._app(scope, receive, send)


def traced(app: ASGIApp, join_trace: JoinTrace | None) -> ASGIApp:
    """Have an application answer inside its callers' traces; nothing where there are no traces."""
    return app if join_trace is None else Traced(app, join_trace)
