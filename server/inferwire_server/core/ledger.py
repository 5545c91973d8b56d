"""Entries that callers name by id: those still open, and for a while those that have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError

E = TypeVar("E")


class JobLedger(Generic[E]):
    """Named jobs. One that has ended is forgotten when released, or `keep_s` after its end."""

    def __init__(self, new_id: Callable[[], str], keep_s: float) -> None:
        self._new_id = new_id
        self._keep_s = keep_s
        self._entries: dict[str, E] = {}
        self._ended: deque[tuple[float, str]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: E) -> str:
        """Give a job a name."""
        job_id = self._new_id()
        self._entries[job_id] = entry
        return job_id

    def get(self, job_id: str) -> E:
        """Give the job of this name.

        Raises:
            ServingError: JOB_NOT_FOUND if there is none, or it was forgotten.
        """
        entry = self._entries.get(job_id)
        if entry is None:
            raise ServingError(
                Code.JOB_NOT_FOUND,
                f"job '{job_id}' is not known: it never was, was released, or ended too long ago",
            )
        return entry

    def release(self, job_id: str) -> None:
        """Forget a job; one that is not there is forgotten already."""
        self._entries.pop(job_id, None)

    def ended(self, job_id: str, now: float) -> float:
        """Start the time after which an ended job is forgotten, and say when that is."""
        forget_at = now + self._keep_s
        self._ended.append((forget_at, job_id))
        return forget_at

    def expire(self, now: float) -> None:
        """Forget the jobs that have ended long enough ago."""
        while self._ended and self._ended[0][0] <= now:
            self.release(self._ended.popleft()[1])
