"""How many processes a server is, and on which cores each computes: a runtime takes as many as its process may use."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import TemporaryDirectory

from structlog.contextvars import bound_contextvars

from inferwire_server.settings import Settings
from inferwire_server.transport.relay.crew import ALONE, Crew


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a server, as one of them knows them.

    Attributes:
        cores: Those that all of them may use.
    """

    crew: Crew = ALONE
    cores: frozenset[int] = frozenset()

    def keep_to_share(self) -> None:
        """Have this process, and whatever it starts, use its part of the cores."""
        if self.crew.count > 1:
            os.sched_setaffinity(0, share(self.cores, self.crew.index, self.crew.count))

    def leave_nothing(self) -> None:
        """Remove the folder of a lead that ends without doing so itself."""
        if self.crew.count > 1:
            rmtree(self.crew.folder, ignore_errors=True)


@contextmanager
def workers_of(settings: Settings) -> Generator[Workers]:
    """Give the lead of as many workers as the settings ask for, with a folder for their sockets."""
    if settings.workers == 1:
        yield Workers()
        return
    cores = frozenset(os.sched_getaffinity(0))
    with TemporaryDirectory(prefix="inferwire-") as folder, bound_contextvars(worker=1):
        yield Workers(Crew(0, settings.workers, Path(folder), token_hex(16)), cores)


def share(cores: Collection[int], index: int, count: int) -> frozenset[int]:
    """Give a worker its part of the cores, neighbours together; all of them where there are fewer than workers."""
    in_order = sorted(cores)
    if len(in_order) < count:
        return frozenset(in_order)
    return frozenset(in_order[len(in_order) * index // count : len(in_order) * (index + 1) // count])
