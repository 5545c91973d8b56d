"""Requests that were answered with an error: counted, unless a job counts them, and logged."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from enum import Enum

import structlog

from inferwire_server.errors import ServingError

log = structlog.stdlib.get_logger(__name__)

# structlog would make all of an event before it asks whether anybody wants it.
_LEVEL = logging.getLogger(__name__)

_NOWHERE: Mapping[str, str] = {}


class Face(Enum):
    """By which way requests come: those on an SDK's session are executions, of which a call carries many."""

    GRPC = "grpc"
    REST = "rest"
    SESSION = "session"


class Refusals:
    """Counts refusals by face and code. Both are fixed sets, so callers cannot make up new series."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def __repr__(self) -> str:
        return f"<Refusals: {self._counts.total()} requests>"

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many there were, by the names of face and code."""
        return self._counts

    def count(self, face: Face, error: ServingError, where: Mapping[str, str] = _NOWHERE, *, requests: int = 1) -> None:
        """Count requests that are answered with an error, unless a job has ended in it: jobs are counted as such.

        The log has it, why, and `where` it was, at the level debug.
        """
        if _LEVEL.isEnabledFor(logging.DEBUG):
            log.debug(
                "answered with an error",
                face=face.value,
                code=error.code.name,
                requests=requests,
                reason=error.message,
                **where,
            )
        if not error.is_of_job:
            self._counts[face.value, error.code.name] += requests
