"""Frees on the server what is no longer used here: in batches, and not on the threads that run destructors.

Owns the queue of what is to be freed and the daemon thread that frees it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeVar

from inferwire.errors import InferwireError
from inferwire.process import THIS

T = TypeVar("T")


class Released(NamedTuple):
    """One thing that the program no longer uses: a compiled model, a sequence, a kept tensor or lent memory, by id.

    Or an uploaded blob, by its hash.
    """

    compiled_id: str = ""
    sequence: int = 0
    tensor: int = 0
    lent: int = 0
    sha256: bytes = b""


class Releases:
    """Ids on their way to being freed.

    Attributes:
        wake: Has the thread try again what could not be freed. Safe to call from anywhere.
    """

    def __init__(self, send: Callable[[list[Released]], bool]) -> None:
        """Free with `send`, which returns whether it could; if not, the ids are queued again until `wake` or `put`."""
        self._send = send
        self._queue: SimpleQueue[Released] = SimpleQueue()
        self._wakes: SimpleQueue[bool] = SimpleQueue()
        # Refers to the queue alone: the connection keeps `wake`, and `send` keeps the connection.
        self.wake = partial(self._wakes.put, True)
        self._begin()
        THIS.after_fork(self._begin)

    def _begin(self) -> None:
        """Begin without a thread, also in a forked child, whose parent's threads may have held these locks."""
        self._sending, self._starting = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once in each process; before the first `put`."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._run, name="inferwire-release", daemon=True)
                thread.start()
                self._thread = thread

    def put(self, released: Released) -> None:
        """Free an id some time soon. Safe to call from a destructor."""
        self._queue.put(released)
        self._wakes.put(True)

    def flush(self) -> bool:
        """Free what was put so far, and what that lets go; return whether the server could be asked to, and has."""
        self.start()
        # A thread that has taken ids from the queue before has sent them once it releases the lock.
        with self._sending:
            while batch := self._put_so_far():
                if not self._send(batch):
                    for released in batch:
                        self._queue.put(released)
                    return False
        return True

    def _put_so_far(self) -> list[Released]:
        batch: list[Released] = []
        with suppress(Empty):
            while True:
                batch.append(self._queue.get_nowait())
        return batch

    def with_room(self, action: Callable[[], T], refusal: type[InferwireError]) -> T:
        """Do something that needs room on the server; if it is refused, flush and do it once more."""
        try:
            return action()
        except refusal:
            self.flush()
            return action()

    def stop(self) -> None:
        """Let the thread end once it has sent what is queued. Safe to call from a destructor."""
        self._wakes.put(False)

    def _run(self) -> None:
        while self._wakes.get():
            self.flush()
