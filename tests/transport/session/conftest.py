"""Sessions are tested on the loop that servers run on, which hands connections over in its own way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop
from tests.clock import Clock


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of this folder on it."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def clock() -> Clock:
    return Clock()
