"""Whose turn it is among the callers of a model, in whichever of its queues their jobs wait."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import count
from typing import Protocol, TypeAlias

from inferwire_server.core.scheduling.job import Job

MOST_SERVED = 1024
"""How many callers are remembered before those without waiting jobs are forgotten."""

Turn: TypeAlias = Hashable
"""A caller, and the priority of the jobs for which it has turns."""


class Waiting(Protocol):
    """Jobs that wait for the same thing."""

    @property
    def turns(self) -> Iterable[Turn]:
        """The turns for which jobs wait."""
        ...


class CallerTurns:
    """When each caller was served last, which tells whose turn it is. A caller has one turn in all queues together.

    Time is counted in `arrivals`, those of all jobs of a device.

    Attributes:
        are_many: Whether so many callers are remembered that `forget_but` is to be called.
        hold_back: Whether jobs were passed over since the last look because answers before them are not taken.
    """

    def __init__(self, arrivals: Iterator[int] | None = None) -> None:
        self.arrivals = count() if arrivals is None else arrivals
        self._served: dict[Turn, int] = {}
        self._most_served = MOST_SERVED
        self.are_many = False
        self.hold_back = False

    def __repr__(self) -> str:
        return f"<CallerTurns: {len(self._served)} callers were served>"

    def of(self, job: Job) -> Turn:
        """Say which turn a job has to wait for."""
        return (job.caller, job.priority) if job.priority else job.caller

    def since(self, turn: Turn, arrival: int) -> int:
        """Say since when a job has waited for its turn: since its arrival, or since its caller was served after that.

        In place of its arrival, what was given for the same job before will do.
        """
        return max(self._served.get(turn, arrival), arrival)

    def serve(self, job: Job, turn: Turn) -> None:
        """Record that a job is taken: its caller's others now rank behind all waiting jobs that are as urgent."""
        if job.caller is not None:
            self._served[turn] = next(self.arrivals)
            self.are_many = len(self._served) > self._most_served

    def forget_but(self, queues: Iterable[Waiting]) -> None:
        """Forget callers without jobs in these queues. Their next job ranks by its arrival, so behind all that wait."""
        waiting = {turn for queue in queues for turn in queue.turns}
        for turn in self._served.keys() - waiting:
            del self._served[turn]
        self._most_served = max(MOST_SERVED, 2 * len(self._served))
        self.are_many = False


class InOrder(CallerTurns):
    """One turn for all: jobs go in the order in which they came, whatever their callers and their priorities."""

    def of(self, job: Job) -> Turn:
        """Give the one there is."""
        del job

    def serve(self, job: Job, turn: Turn) -> None:
        """Do nothing: being served puts no caller behind others."""
