"""How executions end, kept for a test."""

from __future__ import annotations

from queue import SimpleQueue
from typing import NamedTuple

from inferwire.errors import InferwireError
from inferwire.transport.executions import Outcome, OutputBytes


class Ended(NamedTuple):
    """How an execution ended, and its own outputs' bytes."""

    outcome: Outcome
    data: OutputBytes

    @property
    def error(self) -> InferwireError | None:
        return self.outcome.error


class Endings(SimpleQueue[Ended]):
    """The endings of those executions that are delivered to `take`."""

    def take(self, outcome: Outcome, data: OutputBytes) -> None:
        self.put(Ended(outcome, data))


def fail_if_called(outcome: Outcome, data: OutputBytes) -> None:
    """Take nothing: what it is delivered to has no ending in the test."""
    del data
    raise AssertionError(f"nobody wants {outcome}")
