"""The jobs that wait for one model: urgent ones first, else in the order they came."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from inferwire_server.core.job import Job

Rank = tuple[int, int]
"""A waiting job's place: less is sooner."""


class JobQueue:
    """Waiting jobs in order of rank. Removing one leaves a gap that the next pop passes over."""

    def __init__(self, arrivals: Iterator[int] | None = None) -> None:
        self._arrivals = arrivals if arrivals is not None else count()
        self._heap: list[tuple[Rank, Job]] = []
        self._ranks: dict[Job, Rank] = {}

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, job: Job) -> bool:
        return job in self._ranks

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._ranks))

    def push(self, job: Job) -> None:
        """Let a job wait behind all of its priority and above."""
        rank = (-job.priority, next(self._arrivals))
        self._ranks[job] = rank
        heappush(self._heap, (rank, job))

    @property
    def first_rank(self) -> Rank | None:
        """The place of the job that is next; None where none waits."""
        self._pass_gaps()
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Job:
        """Take the next job.

        Raises:
            IndexError: If none waits.
        """
        self._pass_gaps()
        job = heappop(self._heap)[1]
        del self._ranks[job]
        return job

    def remove(self, job: Job) -> None:
        """Take a job out of the middle.

        Raises:
            KeyError: If it does not wait here.
        """
        del self._ranks[job]
        if len(self._heap) > 2 * len(self._ranks) + 8:
            self._heap = [entry for entry in self._heap if entry[1] in self._ranks]
            heapify(self._heap)

    def _pass_gaps(self) -> None:
        while self._heap and self._heap[0][1] not in self._ranks:
            heappop(self._heap)
