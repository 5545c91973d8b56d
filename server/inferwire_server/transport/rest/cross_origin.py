"""Pages of other origins: which a browser lets call the server, and what it lets them read of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

READABLE = (
    "Inference-Header-Content-Length",
    "Inferwire-Inference-Us",
    "Inferwire-Queue-Us",
    "Inferwire-Total-Us",
    "Location",
    "Retry-After",
    "X-Request-Id",
)
"""The headers of answers that a page may read besides those that browsers always show."""

_PREFLIGHT_S = 600
"""For how long a browser need not ask again whether it may call."""

_ASKS_FOR_NETWORK = b"access-control-request-private-network"
_NETWORK_ALLOWED = "access-control-allow-private-network"


class _Origins(CORSMiddleware):
    """Answers browsers that ask, too, whether a page from the internet may reach into the server's own network.

    The pages that may call may do so from anywhere. Of Starlette's releases, older ones do not know that question, and
    newer ones refuse all of a call over it unless they are told otherwise.
    """

    def preflight_response(self, request_headers: Headers) -> Response:
        """Say whether a page may make the call that it is about to make."""
        asked = [field for field in request_headers.raw if field[0] != _ASKS_FOR_NETWORK]
        response = super().preflight_response(Headers(raw=asked))
        if len(asked) < len(request_headers.raw) and response.status_code == HTTPStatus.OK:
            response.headers[_NETWORK_ALLOWED] = "true"
        return response


def allowing_origins(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Have browsers let pages of these origins call an application; give the application itself if there are none.

    This has to come before the check of keys: a browser shows none when it asks whether it may call.
    """
    if not origins:
        return app
    return _Origins(
        app,
        allow_origins=origins,
        allow_methods=("*",),
        allow_headers=("*",),
        expose_headers=READABLE,
        max_age=_PREFLIGHT_S,
    )
