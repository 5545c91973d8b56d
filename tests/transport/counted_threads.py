"""Threads for what is too long for the loop, which tell how much was run on them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class CountedThreads(ThreadPoolExecutor):
    """Counts what is run on threads."""

    def __init__(self) -> None:
        super().__init__(1)
        self.runs = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Count a run."""
        self.runs += 1
        return super().submit(fn, *args, **kwargs)
