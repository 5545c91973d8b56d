"""The bindings whose next job finds their slot idle, in the order of those jobs' ranks."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import itemgetter

from inferwire_server.core.scheduling.bindings import Binding
from inferwire_server.core.scheduling.queue import Rank

_rank_of = itemgetter(0)


class ReadyBindings:
    """Bindings in order of rank. No two of them have the same."""

    def __init__(self) -> None:
        self._in_order: list[tuple[Rank, Binding]] = []
        self._ranks: dict[Binding, Rank] = {}

    def __repr__(self) -> str:
        return f"<ReadyBindings: {len(self._in_order)}>"

    @property
    def first(self) -> Binding | None:
        """The one whose job is next; None where none is ready."""
        return self._in_order[0][1] if self._in_order else None

    def put(self, binding: Binding, rank: Rank | None) -> None:
        """Record the rank of a binding's next job; None if the binding is not ready."""
        known = self._ranks.pop(binding, None)
        if known is not None:
            del self._in_order[bisect_left(self._in_order, known, key=_rank_of)]
        if rank is not None:
            self._ranks[binding] = rank
            insort(self._in_order, (rank, binding), key=_rank_of)
