"""Connections go from one loop of the kind that servers run on to another: it hands them over in a way of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of this folder on it."""
    return {"uvloop": uvloop.new_event_loop}
