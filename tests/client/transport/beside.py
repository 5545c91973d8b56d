"""Calls on threads of their own, so that no test hangs if one does not return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from tests.waiting import LIMIT_S

T = TypeVar("T")


def beside(call: Callable[[], T]) -> Callable[[], T]:
    """Make a call on a thread of its own, and give a function that waits for the result, but not for ever."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()

    def wait() -> T:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "it hangs"
        return found[0]

    return wait
