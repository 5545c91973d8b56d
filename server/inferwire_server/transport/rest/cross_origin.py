"""Pages of other origins: which a browser lets call the server, and what it lets them read of its answers."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

READABLE = ("Inference-Header-Content-Length", "Location", "Retry-After", "X-Request-Id")
"""The headers of answers that a page may read besides those that browsers always show."""

_PREFLIGHT_S = 600
"""For how long a browser need not ask again whether it may call."""


def allowing_origins(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Have browsers let pages of these origins call an application; give the application itself if there are none.

    This has to come before the check of keys: a browser shows none when it asks whether it may call.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=("*",),
        allow_headers=("*",),
        expose_headers=READABLE,
        max_age=_PREFLIGHT_S,
    )
