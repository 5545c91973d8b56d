"""Whose turn it is among the callers of a model, in whichever of its queues their jobs wait."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import count
from typing import Protocol, TypeAlias

from inferwire_server.core.scheduling.job import Job

MOST_SERVED = 1024
"""How many callers are remembered although they may have nothing waiting."""

Turn: TypeAlias = Hashable
"""A caller, and the priority of the jobs for which it has turns."""


class Waiting(Protocol):
    """Jobs that wait for the same thing."""

    @property
    def turns(self) -> Iterable[Turn]:
        """The turns that are waited for."""
        ...


class CallerTurns:
    """When callers were served last, as far as that tells whose turn it is: each has its turn in one of the queues.

    Time is counted in `arrivals`, those of all jobs of a device.

    Attributes:
        are_many: Whether so many are remembered that those are to be forgotten that have nothing waiting.
    """

    def __init__(self, arrivals: Iterator[int] | None = None) -> None:
        self.arrivals = count() if arrivals is None else arrivals
        self._served: dict[Turn, int] = {}
        self._most_served = MOST_SERVED
        self.are_many = False

    def __repr__(self) -> str:
        return f"<CallerTurns: {len(self._served)} callers were served>"

    def of(self, job: Job) -> Turn:
        """Say which turn a job has to wait for."""
        return (job.caller, job.priority) if job.priority else job.caller

    def since(self, turn: Turn, arrival: int) -> int:
        """Say since when it is a turn, of which a job waits that has arrived then, or has had its turn since then."""
        return max(self._served.get(turn, arrival), arrival)

    def serve(self, job: Job, turn: Turn) -> None:
        """Record that a job is taken: its caller's others are behind whatever waits now and is as urgent."""
        if job.caller is not None:
            self._served[turn] = next(self.arrivals)
            self.are_many = len(self._served) > self._most_served

    def forget_but(self, queues: Iterable[Waiting]) -> None:
        """Forget callers that wait in none of these: who comes again is behind whoever waits."""
        waiting = {turn for queue in queues for turn in queue.turns}
        for turn in self._served.keys() - waiting:
            del self._served[turn]
        self._most_served = max(MOST_SERVED, 2 * len(self._served))
        self.are_many = False


class InOrder(CallerTurns):
    """One turn for all: jobs go in the order in which they came, whosever they are and whatever their priorities."""

    def of(self, job: Job) -> Turn:
        """Give the one there is."""
        del job

    def serve(self, job: Job, turn: Turn) -> None:
        """Put nobody behind others."""
