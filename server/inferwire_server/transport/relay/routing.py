"""Who answers a call that more workers than one have to do with, whatever transport it came by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from inferwire_server.transport.relay.colleagues import Colleagues
from inferwire_server.transport.relay.crew import Crew
from inferwire_server.transport.relay.scopes import Reach, Scope, Summed
from inferwire_server.transport.relay.sums import Sum

LEAD = 0

A = TypeVar("A")


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
        """Have another worker answer, as it would answer anybody or as if it were `alone`."""
        ...

    def added(self, add: Sum, answers: Sequence[A]) -> A:
        """Make one answer of several, this worker's first."""
        ...


class Routing:
    """Sends calls where they are answered."""

    def __init__(self, crew: Crew, colleagues: Colleagues, stateful: Callable[[], frozenset[str]]) -> None:
        self._crew = crew
        self._colleagues = colleagues
        self._stateful = stateful

    def __repr__(self) -> str:
        return f"<Routing of worker {self._crew.index} of {self._crew.count}>"

    def stays(self, scope: Scope) -> bool:
        """Whether every call of a scope is answered here, whatever it names."""
        return scope is Reach.STATES and (self._crew.is_lead or not self._stateful())

    async def answer(self, scope: Scope, call: RelayedCall[A]) -> A:
        """Answer a call that came from outside."""
        if scope is Reach.OWNER:
            owner = self._crew.owner_of(call.subject)
            return await (call.here() if owner == self._crew.index else call.at(owner, alone=True))
        if scope is Reach.STATES and call.subject not in self._stateful():
            return await call.here()
        if not self._crew.is_lead:
            return await call.at(LEAD, alone=False)
        own = await call.here()
        if scope is Reach.STATES:
            return own
        others = await self._colleagues.each(lambda worker: call.at(worker, alone=True))
        return call.added(scope.add, [own, *others]) if isinstance(scope, Summed) else own
