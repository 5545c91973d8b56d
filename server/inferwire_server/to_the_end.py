"""Waiting for what is to reach its end, whether its caller waits for that or leaves."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(begun: asyncio.Future[T]) -> T:
    """Wait for what has begun, and let it go on when the caller leaves: what it raises then, asyncio does not log."""
    begun.add_done_callback(_take_error)
    # The `asyncio.shield` of newer Pythons logs it itself.
    await asyncio.wait([begun])
    return begun.result()


def _take_error(ended: asyncio.Future[Any]) -> None:
    if not ended.cancelled():
        ended.exception()
