"""Entries that expire after the same time to live (TTL): which is the next, and which have expired."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")


class Lifetimes(Generic[K]):
    """Entries that all live equally long. Time is an argument and never goes back: the first to begin ends first."""

    def __init__(self, lifetime_s: float) -> None:
        self._lifetime_s = lifetime_s
        # Not a plain dict, which finds its first entry ever more slowly as entries before it are removed.
        self._ends: OrderedDict[K, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ends)

    def __repr__(self) -> str:
        return f"<Lifetimes: {len(self)} of {self._lifetime_s:g} s>"

    @property
    def next_end(self) -> float | None:
        """When the next one ends; None where there is none."""
        return next(iter(self._ends.values()), None)

    def begin(self, each: K, now: float) -> None:
        """Have an entry end after the lifetime, unless it is stopped before."""
        self._ends[each] = now + self._lifetime_s

    def stop(self, each: K) -> None:
        """Forget an entry, if it has begun, so that it does not end."""
        self._ends.pop(each, None)

    def pop_ended(self, now: float) -> K | None:
        """Take the first entry that has ended; None if none has."""
        end = self.next_end
        return None if end is None or end > now else self._ends.popitem(last=False)[0]
