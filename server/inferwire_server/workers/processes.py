"""The processes of a server, and on which cores each computes: a runtime takes as many as its process may use.

A container's limit is often not one of cores but of CPU time, which a runtime does not see.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from inferwire_server.crew import ALONE, Crew
from inferwire_server.settings import Settings


@dataclass(frozen=True, slots=True)
class Workers:
    """A crew as processes of one machine: each computes on its share of the cores, and has its name in the log.

    Attributes:
        cores: The cores that all workers together may use.
    """

    crew: Crew = ALONE
    cores: frozenset[int] = frozenset()

    def keep_to_share(self) -> None:
        """Have this process, and whatever it starts, use its part of the cores."""
        if self.crew.count > 1:
            os.sched_setaffinity(0, share(self.cores, self.crew.index, self.crew.count))

    def cpus(self, cpu_limit: float | None) -> float:
        """Say how many CPUs' time this process may have, if the whole server may have that of `cpu_limit`."""
        count = self.crew.count
        cores = len(self.cores) / count if count > 1 else len(os.sched_getaffinity(0))
        return cores if cpu_limit is None else min(cores, cpu_limit / count)

    def threads(self, cpu_limit: float | None) -> int | None:
        """Say how many threads are to compute in this process; None for one on each core that it may use.

        If there were more threads than CPU time for them, the system would stop all of them together, again and again,
        until the next period of the limit.

        Args:
            cpu_limit: How many CPUs' time the whole server may have; None if nothing limits it.
        """
        if cpu_limit is None:
            return None
        threads = max(int(cpu_limit / self.crew.count), 1)
        return threads if threads < len(os.sched_getaffinity(0)) else None

    @property
    def in_logs(self) -> dict[str, int]:
        """What each log line of this process says: which worker it is, if there are others."""
        return {"worker": self.crew.index + 1} if self.crew.count > 1 else {}


def workers_of(settings: Settings) -> Workers:
    """Give as many workers as the settings ask for, as their lead knows them."""
    return Workers(Crew.of(settings.workers), frozenset(os.sched_getaffinity(0))) if settings.workers > 1 else Workers()


def share(cores: Collection[int], index: int, count: int) -> frozenset[int]:
    """Give a worker its part of the cores, neighbours together; all cores if there are fewer of them than workers."""
    in_order = sorted(cores)
    if len(in_order) < count:
        return frozenset(in_order)
    return frozenset(in_order[len(in_order) * index // count : len(in_order) * (index + 1) // count])
