"""Decides which workers answer a call that concerns more than one of them, whatever transport it came by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from inferwire_proto.errors import Code
from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError
from inferwire_server.gil_thread import GilThread
from inferwire_server.to_the_end import to_the_end
from inferwire_server.transport.relay.audiences import Audience, Everywhere, Reach, Summed
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.sums import Sum

LEAD = 0

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class SumLimits:
    """How long other workers may take for a sum, in seconds.

    Attributes:
        part_s: How long a worker may take for its part, which it has at hand: less than Prometheus waits for a scrape.
        whole_s: How long the lead may take for the whole sum.
    """

    part_s: float = 5.0
    whole_s: float = 7.0


class RelayedCall(Protocol[A]):
    """A call, and how each of the workers is asked for its answer. What fails is raised."""

    @property
    def subject(self) -> str:
        """What it names: a job or a model."""
        ...

    async def here(self) -> A:
        """Answer as if this were the only worker."""
        ...

    async def at(self, worker: int, *, alone: bool) -> A:
        """Have another worker answer, as it would answer any caller or, `alone`, as if it were the only worker."""
        ...

    def added(self, add: Sum, answers: Sequence[A]) -> A:
        """Make one answer of several, this worker's first. This may take long, and is not called on the loop."""
        ...


class Routing:
    """Sends calls where they are answered."""

    def __init__(
        self,
        crew: Crew,
        other_workers: OtherWorkers,
        stateful: Callable[[], frozenset[str]],
        gil_thread: GilThread,
        limits: SumLimits | None = None,
    ) -> None:
        self._crew = crew
        self._other_workers = other_workers
        self._stateful = stateful
        self._gil_thread = gil_thread
        self._limits = limits or SumLimits()
        self._turns = {kind: asyncio.Lock() for kind in Everywhere}
        self._changes: set[asyncio.Future[Any]] = set()

    def __repr__(self) -> str:
        return f"<Routing of worker {self._crew.index} of {self._crew.count}>"

    def stays(self, audience: Audience) -> bool:
        """Whether every call of an audience is answered here, whatever it names."""
        return audience is Reach.STATES and (self._crew.is_lead or not self._stateful())

    async def answer(self, audience: Audience, call: RelayedCall[A]) -> A:
        """Answer a call that came from outside."""
        if audience is Reach.OWNER:
            owner = self._crew.owner_of(call.subject)
            return await (call.here() if owner == self._crew.index else call.at(owner, alone=True))
        if audience is Reach.STATES and call.subject not in self._stateful():
            return await call.here()
        if isinstance(audience, Summed):
            return await (self._sum(audience.add, call) if self._crew.is_lead else self._sum_of_lead(call))
        if not self._crew.is_lead:
            return await call.at(LEAD, alone=False)
        return await (self._everywhere(audience, call) if isinstance(audience, Everywhere) else call.here())

    async def _sum(self, add: Sum, call: RelayedCall[A]) -> A:
        """Add up the answers of all. If one does not answer there is no sum: counters that fall look like a restart."""

        async def part(worker: int) -> A:
            async with _in_time(worker, self._limits.part_s):
                return await call.at(worker, alone=True)

        own = await call.here()
        # Scrapes of a hundred models take a tenth of a second to add up.
        return await self._gil_thread.run(call.added, add, [own, *await self._other_workers.each(part)])

    async def _sum_of_lead(self, call: RelayedCall[A]) -> A:
        async with _in_time(LEAD, self._limits.whole_s):
            return await call.at(LEAD, alone=False)

    async def _everywhere(self, kind: Everywhere, call: RelayedCall[A]) -> A:
        self._other_workers.require_all()
        change = asyncio.ensure_future(self._change(kind, call))
        self._changes.add(change)
        change.add_done_callback(self._changes.discard)
        return await to_the_end(change)

    async def _change(self, kind: Everywhere, call: RelayedCall[A]) -> A:
        """Have a call answered by all workers: one change of a kind after the other, and each to its end.

        A change goes on when its caller leaves: otherwise the workers would be left in different states.
        """
        async with self._turns[kind]:
            own = await call.here()
            await self._other_workers.each(lambda worker: call.at(worker, alone=True))
            return own


@asynccontextmanager
async def _in_time(worker: int, limit_s: float) -> AsyncGenerator[None, None]:
    """Wait for a worker's answer, and no longer than it may take.

    Raises:
        ServingError: DEADLINE_EXCEEDED if it takes longer.
    """
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError as error:
        sentence = f"worker {worker + 1} of this server has not answered within {limit_s:g} s"
        raise ServingError(Code.DEADLINE_EXCEEDED, sentence) from error
