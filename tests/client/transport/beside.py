"""Calls that no test waits for in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from tests.client.transport.scripted_server import TIMEOUT_S

T = TypeVar("T")


def beside(call: Callable[[], T]) -> Callable[[], T]:
    """Call on a thread that no test waits for in vain, and give what gives the result."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()

    def wait() -> T:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive(), "it hangs"
        return found[0]

    return wait
