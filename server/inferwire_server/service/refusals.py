"""Requests that were answered with an error which is no job's: counted where errors become answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum

from inferwire_server.errors import ServingError


class Face(Enum):
    """By which way requests come: those on an SDK's session are executions, of which a call carries many."""

    GRPC = "grpc"
    REST = "rest"
    SESSION = "session"


class Refusals:
    """Counts them by face and code, of which there are so many and no more, whatever callers send."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def __repr__(self) -> str:
        return f"<Refusals: {self._counts.total()} requests>"

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many there were, by the names of face and code."""
        return self._counts

    def count(self, face: Face, error: ServingError) -> None:
        """Count a request that is answered with an error, unless a job has ended in it: jobs are counted as such."""
        if not error.is_of_job:
            self._counts[face.value, error.code.name] += 1
