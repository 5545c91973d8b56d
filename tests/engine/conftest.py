"""Helpers that tests of the engine share."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from inferwire_server.core.scheduling.job import Outcome
from inferwire_server.engine.slot_runs import SlotRun


@contextmanager
def no_new_threads() -> Generator[None, None, None]:
    """Have the system refuse every new thread, as it does when memory or process ids are used up."""
    size = threading.stack_size(2**47)  # no address space has room for it
    try:
        yield
    finally:
        threading.stack_size(size)


def run_to_end(run: SlotRun) -> Sequence[Outcome]:
    """Run all steps at once, and give each job its outcome."""
    for _ in run.steps():
        pass
    return run.outcomes
