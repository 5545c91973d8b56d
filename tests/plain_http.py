"""Clients of HTTP without TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
import tritonclient.http

T = TypeVar("T")


def plain_client(**options: Any) -> httpx.AsyncClient:
    """Make a client that reads no certificates: that takes longer than most tests, and each client would do it."""
    return httpx.AsyncClient(verify=False, **options)


async def with_triton(address: str, use: Callable[[Any], T]) -> T:
    """Run a program of Triton's blocking client on a thread."""

    def run() -> T:
        with tritonclient.http.InferenceServerClient(address) as client:
            return use(client)

    return await asyncio.to_thread(run)
