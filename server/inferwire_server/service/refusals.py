"""Requests that were answered with an error: counted, unless a job counts them, and logged."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from time import monotonic

import structlog

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.seldom import INTERVAL_S, Seldom

log = structlog.stdlib.get_logger(__name__)

# structlog would make all of an event before it asks whether its level is logged.
_LEVEL = logging.getLogger(__name__)

_NOWHERE: Mapping[str, str] = {}

_MOST_ADDRESSES = 20
"""How many addresses are logged in `INTERVAL_S`: a caller that has many could fill the log."""


class Interface(Enum):
    """The way by which requests come. Those on an SDK's session are executions, of which a call carries many."""

    GRPC = "grpc"
    REST = "rest"
    SESSION = "session"


class Refusals:
    """Counts refusals by interface and code. Both are fixed sets, so callers cannot make up new series.

    Attributes:
        counts: How many there were, by the names of interface and code.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._clock = clock
        # When each of these addresses was logged, the longest ago first.
        self._told: dict[str, float] = {}
        self._full = Seldom(clock)

    def __repr__(self) -> str:
        return f"<Refusals: {self.counts.total()} requests>"

    def count(
        self,
        interface: Interface,
        error: ServingError,
        where: Mapping[str, str] = _NOWHERE,
        *,
        requests: int = 1,
        peer: str = "",
    ) -> None:
        """Count requests that are answered with an error, unless it is a job's, which the job's tally counts.

        The error is logged at the level debug, with its reason and `where` it was. Logged as a warning, now and then,
        are the address of a `peer` that shows no valid key, and that jobs find no room.
        """
        if error.code is Code.UNAUTHENTICATED and peer:
            self._warn_of(peer, interface, error.message)
        if error.code is Code.QUEUE_FULL and self._full.is_due():
            log.warning("jobs find no room", interface=interface.value, reason=error.message)
        if _LEVEL.isEnabledFor(logging.DEBUG):
            log.debug(
                "answered with an error",
                interface=interface.value,
                code=error.code.name,
                requests=requests,
                reason=error.message,
                **where,
            )
        if not error.is_of_job:
            self.counts[interface.value, error.code.name] += requests

    def _warn_of(self, address: str, interface: Interface, reason: str) -> None:
        now = self._clock()
        while self._told and next(iter(self._told.values())) <= now - INTERVAL_S:
            del self._told[next(iter(self._told))]
        if address not in self._told and len(self._told) < _MOST_ADDRESSES:
            self._told[address] = now
            log.warning("a caller shows no valid API key", interface=interface.value, address=address, reason=reason)
