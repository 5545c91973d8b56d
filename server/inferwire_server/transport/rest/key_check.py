"""Checks the key of each HTTP request, before anything else looks at the request."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from inferwire_server.errors import ServingError
from inferwire_server.service import AccessService, Services
from inferwire_server.service.refusals import Interface, Refusals
from inferwire_server.transport.http.exchange import host_of, where_of
from inferwire_server.transport.http.request_headers import header
from inferwire_server.transport.http.responses import error_response

KEYLESS = frozenset({"/v2/health/live", "/v2/health/ready", "/", "/docs", "/openapi.json"})
"""Paths that need no key: probes have none, and the documentation's page is where a user enters one."""

_PAGE = "/swagger/"
"""All that the documentation's page loads lies under this path."""


class KeyCheck:
    """Refuses requests without a valid key, and hands all others on."""

    def __init__(self, app: ASGIApp, access: AccessService, refusals: Refusals) -> None:
        self._app = app
        self._access = access
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if not is_keyless(scope["path"]):
            try:
                self._access.check(header(scope, b"authorization"))
            except ServingError as refusal:
                self._refusals.count(Interface.REST, refusal, where_of(scope), peer=host_of(scope))
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def asking_for_key(app: ASGIApp, services: Services) -> ASGIApp:
    """Put the check before an application; nothing where no key is needed."""
    return KeyCheck(app, services.access, services.refusals) if services.access.needs_key else app


def is_keyless(path: str) -> bool:
    """Whether a path needs no key."""
    return path in KEYLESS or path.startswith(_PAGE)
