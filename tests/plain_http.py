"""A client of HTTP without TLS."""

from __future__ import annotations

from typing import Any

import httpx


def plain_client(**options: Any) -> httpx.AsyncClient:
    """Make a client that reads no certificates: that takes longer than most tests, and each client would do it."""
    return httpx.AsyncClient(verify=False, **options)
