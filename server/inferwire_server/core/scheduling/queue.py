"""A queue of jobs that wait for the same thing: urgent ones first, or in the order they came."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from inferwire_server.core.scheduling.job import Job

Rank = tuple[int, int]
"""A waiting job's place: less is sooner."""


class JobQueue:
    """Waiting jobs in order of rank. Removing one leaves a gap in the heap, which the next pop passes over.

    With `is_in_order` they keep the order in which they came, whatever their priorities.
    """

    def __init__(self, arrivals: Iterator[int] | None = None, *, is_in_order: bool = False) -> None:
        self._arrivals = arrivals if arrivals is not None else count()
        self._is_in_order = is_in_order
        self._heap: list[tuple[Rank, Job]] = []
        self._rows: dict[Job, int] = {}
        self._total_rows = 0
        self._executions = 0
        self._carried_bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._rows))

    @property
    def rows(self) -> int:
        """How many rows the waiting jobs have together."""
        return self._total_rows

    @property
    def executions(self) -> int:
        """How many executions the waiting jobs are."""
        return self._executions

    @property
    def carried_bytes(self) -> int:
        """How much the waiting jobs keep in memory."""
        return self._carried_bytes

    def push(self, job: Job, rows: int = 1) -> None:
        """Let a job wait behind all others of its priority or a higher one."""
        self._rows[job] = rows
        self._total_rows += rows
        self._executions += job.work.executions
        self._carried_bytes += job.work.carried_bytes
        heappush(self._heap, ((0 if self._is_in_order else -job.priority, next(self._arrivals)), job))

    @property
    def first_rank(self) -> Rank | None:
        """The rank of the job that is next, by its priority also where the queue is in order; None where none waits."""
        self._pass_gaps()
        if not self._heap:
            return None
        (_, arrival), job = self._heap[0]
        return -job.priority, arrival

    @property
    def first(self) -> Job:
        """The job that is next.

        Raises:
            IndexError: If none waits.
        """
        self._pass_gaps()
        return self._heap[0][1]

    @property
    def oldest(self) -> Job:
        """The job that has waited longest.

        Raises:
            IndexError: If none waits.
        """
        for job in self._rows:
            return job
        raise IndexError("no job waits")

    @property
    def first_deadline(self) -> float | None:
        """When the first of the waiting jobs expires; None where none does."""
        return min((job.deadline for job in self._rows if job.deadline is not None), default=None)

    def pop(self) -> Job:
        """Take the next job.

        Raises:
            IndexError: If none waits.
        """
        self._pass_gaps()
        job = heappop(self._heap)[1]
        self._forget(job)
        return job

    def remove(self, job: Job) -> None:
        """Take a job out of the middle.

        Raises:
            KeyError: If it does not wait here.
        """
        self._forget(job)
        if len(self._heap) > 2 * len(self._rows) + 8:
            self._heap = [entry for entry in self._heap if entry[1] in self._rows]
            heapify(self._heap)

    def _forget(self, job: Job) -> None:
        self._total_rows -= self._rows.pop(job)
        self._executions -= job.work.executions
        self._carried_bytes -= job.work.carried_bytes

    def _pass_gaps(self) -> None:
        while self._heap and self._heap[0][1] not in self._rows:
            heappop(self._heap)
