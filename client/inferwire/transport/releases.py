"""Frees what the garbage collector found unused, in batches and away from the destructors.

Owns one queue and one daemon thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple


class Released(NamedTuple):
    """One thing that nobody uses any more: a compiled model, a sequence, a kept tensor or lent memory, by its id."""

    compiled_id: str = ""
    sequence: int = 0
    tensor: int = 0
    lent: int = 0


class Releases:
    """Ids on their way to being freed."""

    def __init__(self, send: Callable[[list[Released]], None]) -> None:
        self._send = send
        self._queue: SimpleQueue[Released | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once in each process; before the first `put`."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="inferwire-release", daemon=True)
            self._thread.start()

    def put(self, released: Released) -> None:
        """Free an id some time soon. Safe to call from a destructor."""
        self._queue.put(released)

    def stop(self) -> None:
        """Let the thread end once it has sent what is queued. Safe to call from a destructor."""
        self._queue.put(None)

    def _run(self) -> None:
        while (batch := self._gather()) is not None:
            self._send(batch)

    def _gather(self) -> list[Released] | None:
        batch: list[Released] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch
        return None
