"""Sessions are tested on the loop that servers run on: it hands over connections in a way of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of this folder on it."""
    return {"uvloop": uvloop.new_event_loop}
