"""Jobs that callers name by id: those still open, and for a while those that have ended."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Generic, NamedTuple, TypeVar

from inferwire_proto.errors import Code
from inferwire_server.core.lifetimes import Lifetimes
from inferwire_server.core.taken import Taken
from inferwire_server.errors import ServingError

E = TypeVar("E")


class KeepingTerms(NamedTuple):
    """How long ended jobs are kept, and how many bytes of them."""

    keep_s: float
    most_bytes: int


class Kept(NamedTuple):
    """The jobs that have ended and are still kept, and what they take."""

    jobs: int
    taken: Taken


class JobLedger(Generic[E]):
    """Named jobs. One that has ended is forgotten when released, some time after its end, or when later ones need room.

    The one that ended last is kept, however large it is.
    """

    def __init__(self, new_id: Callable[[], str], terms: KeepingTerms) -> None:
        self._new_id = new_id
        self._terms = terms
        self._entries: dict[str, E] = {}
        self._ended: Lifetimes[str] = Lifetimes(terms.keep_s)
        self._byte_sizes: dict[str, int] = {}
        self._byte_size = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def kept(self) -> Kept:
        """What is kept of ended jobs."""
        return Kept(len(self._ended), Taken(self._byte_size, self._terms.most_bytes))

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
                f"job '{job_id}' is not known: it never was, was released, or ended too long ago: results are kept for "
                f"{self._terms.keep_s:g} s, and for less where later ones need the room",
            )
        return entry

    def release(self, job_id: str) -> None:
        """Forget a job; one that is not there is forgotten already."""
        self._entries.pop(job_id, None)
        self._ended.stop(job_id)
        self._byte_size -= self._byte_sizes.pop(job_id, 0)

    @property
    def next_expiry(self) -> float | None:
        """When the next job is to be forgotten, never sooner than any that was before; None where none has ended."""
        return self._ended.next_end

    def ended(self, job_id: str, byte_size: int, now: float) -> None:
        """Start the time after which an ended job is forgotten. It may take others' room."""
        if job_id in self._entries:
            self._ended.begin(job_id, now)
            self._byte_sizes[job_id] = byte_size
            self._byte_size += byte_size
        while self._byte_size > self._terms.most_bytes and len(self._ended) > 1:
            self._forget_first(inf)

    def expire(self, now: float) -> None:
        """Forget the jobs that have ended long enough ago."""
        while self._forget_first(now):
            pass

    def _forget_first(self, now: float) -> bool:
        """Forget the job that was the first to end, if its time is over; say whether it was."""
        job_id = self._ended.pop_ended(now)
        if job_id is None:
            return False
        self.release(job_id)
        return True
