"""When jobs expire: those with a deadline, the next one first."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from inferwire_server.core.job import Job


class Deadlines:
    """Jobs that have a deadline. Those that have ended meanwhile are passed over."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Job]] = []
        self._arrivals = count()

    def __repr__(self) -> str:
        return f"<Deadlines: of {len(self._heap)} jobs at the most>"

    def __bool__(self) -> bool:
        """Whether there may be one."""
        return bool(self._heap)

    def add(self, job: Job, deadline: float) -> None:
        """Have a job expire."""
        heappush(self._heap, (deadline, next(self._arrivals), job))

    @property
    def next(self) -> float | None:
        """When the next job expires; None where none does."""
        while self._heap and self._heap[0][2].state.is_terminal:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Job | None:
        """Take the next job whose deadline has passed, if there is one."""
        due = self.next
        return None if due is None or due > now else heappop(self._heap)[2]
