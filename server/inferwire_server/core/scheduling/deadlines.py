"""When jobs expire: those with a deadline, the next one first."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count

from inferwire_server.core.scheduling.job import Job


class Deadlines:
    """Jobs that have a deadline. One that ends before its deadline stays in the heap for a while and is passed over.

    It does not stay until its deadline, which may be far away, because an ended job holds its outputs.

    Attributes:
        open: How many jobs have a deadline and have not ended.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Job]] = []
        self.open = 0
        self._arrivals = count()

    def __repr__(self) -> str:
        return f"<Deadlines: {self.open} jobs>"

    def add(self, job: Job, deadline: float) -> None:
        """Let a job expire at its deadline. `ended` has to be called when the job ends, in whatever way."""
        self.open += 1
        heappush(self._heap, (deadline, next(self._arrivals), job))

    def ended(self) -> None:
        """Record that one of the jobs has ended, and drop ended jobs once they are more than half of what is kept."""
        self.open -= 1
        if not self.open:
            self._heap.clear()
        elif len(self._heap) > 2 * self.open + 8:
            self._heap = [entry for entry in self._heap if not entry[2].state.is_terminal]
            heapify(self._heap)

    @property
    def next(self) -> float | None:
        """When the next job expires; None where none does."""
        while self._heap and self._heap[0][2].state.is_terminal:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> tuple[Job, float] | None:
        """Take the next job whose deadline has passed, and give it with its deadline; None where there is none."""
        due = self.next
        return None if due is None or due > now else (heappop(self._heap)[2], due)
