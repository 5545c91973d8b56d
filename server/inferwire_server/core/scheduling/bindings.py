"""Slots that belong to one caller each, for models that keep states between inferences.

A *binding* is a caller's hold on a slot: its jobs run there, one after the other in the order they
came, and no other caller's do. It ends

- when its caller has released it and its last job has ended,
- when all its jobs have ended and none of them ran, as there are no states to keep then, or
- when it has had no job for too long.

Knows neither jobs nor names; time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from inferwire_proto.errors import Code
from inferwire_server.core.lifetimes import Lifetimes
from inferwire_server.errors import ServingError, bug


@dataclass(frozen=True, slots=True)
class BindingTerms:
    """How a model with states is shared.

    Attributes:
        most: How many callers may be bound at once.
        idle_s: How long a binding without a job lives.
        may_wait: Whether one more caller waits until a binding ends, or is refused.
    """

    most: int = 64
    idle_s: float = 600.0
    may_wait: bool = False


@dataclass(eq=False, slots=True)
class Binding:
    """One caller's hold on a slot, or its wait for one. The `Bindings` that made it alone change it.

    Attributes:
        slot: The number of its slot; None while it waits for one.
        on_end: Is called with it, once, when it has ended.
        jobs: How many of its jobs wait or run.
        has_states: Whether a job of it ran.
        is_ending: Whether it takes no more jobs and ends with the last one it has, or has ended.
    """

    model: Hashable
    slot: int | None
    on_end: Callable[[Binding], Any]
    jobs: int = 0
    has_states: bool = False
    is_ending: bool = False
    has_ended: bool = False

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "waits" if self.slot is None else f"slot {self.slot}"
        return f"<Binding of {self.model}: {state}, {self.jobs} jobs>"


class Bindings:
    """One model's bindings, over slots that are numbered from `first_slot` up."""

    def __init__(self, model: Hashable, terms: BindingTerms, first_slot: int) -> None:
        self._model = model
        self._terms = terms
        self._free: list[int] = []
        self._next_slot = first_slot
        self._bound: set[Binding] = set()
        self._waiting: deque[Binding] = deque()
        self._heirs: list[Binding] = []
        self._idle: Lifetimes[Binding] = Lifetimes(terms.idle_s)

    def __len__(self) -> int:
        return len(self._bound) + len(self._waiting)

    def __repr__(self) -> str:
        return f"<Bindings of {self._model}: {len(self._bound)}/{self._terms.most} bound, {len(self._waiting)} wait>"

    @property
    def next_end(self) -> float | None:
        """When the binding that has been idle longest ends; None where none is idle."""
        return self._idle.next_end

    def bind(self, on_end: Callable[[Binding], Any], now: float, instead_of: Binding | None = None) -> Binding:
        """Give a caller a slot, or have it wait for one. The binding keeps `on_end`, which the engine calls.

        With `instead_of` it takes the place of another binding of the same caller, which has been released or is about
        to be. Where that one waits, it waits there; where that one has a slot, it waits before all others, unless there
        is a slot for it at once and that one still has jobs.

        Raises:
            ServingError: QUEUE_FULL if as many are bound as may be, and no more may wait.
        """
        has_room = len(self._bound) < self._terms.most
        is_idle = instead_of is not None and not instead_of.jobs
        binding = Binding(self._model, None, on_end)
        if instead_of in self._waiting:
            self._waiting.insert(self._waiting.index(instead_of) + 1, binding)
        elif instead_of in self._bound and (is_idle or not has_room):
            self._waiting.appendleft(binding)
        elif has_room:
            binding.slot = self._take_slot()
            self._bound.add(binding)
        elif self._terms.may_wait:
            self._waiting.append(binding)
        else:
            raise ServingError(
                Code.QUEUE_FULL,
                f"model '{self._model}' keeps the states of {len(self._bound)} callers, at most {self._terms.most} "
                "may be: come back when one has ended its sequence",
                retry_after_s=1.0,
            )
        self._idle.begin(binding, now)
        return binding

    def begin_job(self, binding: Binding) -> None:
        """Record that a job of a binding waits."""
        if binding.is_ending:
            raise bug(f"{binding!r} takes no more jobs")
        binding.jobs += 1
        self._idle.stop(binding)

    def end_job(self, binding: Binding, now: float, *, has_run: bool) -> list[Binding]:
        """Record that a job of a binding has ended, and give the binding if it has ended with the job."""
        binding.jobs -= 1
        binding.has_states |= has_run
        if binding.jobs:
            return []
        if binding.is_ending or not binding.has_states:
            return self._end(binding)
        self._idle.begin(binding, now)
        return []

    def release(self, binding: Binding) -> list[Binding]:
        """Take no more jobs for a binding, and give it if it has none and so has ended."""
        if binding.is_ending:
            return []
        binding.is_ending = True
        return [] if binding.jobs else self._end(binding)

    def release_all(self) -> list[Binding]:
        """Release every binding, and give those that have ended."""
        return [ended for binding in (*self._waiting, *self._bound) for ended in self.release(binding)]

    def expire(self, now: float) -> list[Binding]:
        """End the bindings that have been idle too long, and give them."""
        ended: list[Binding] = []
        while (binding := self._idle.pop_ended(now)) is not None:
            ended += self._end(binding)
        return ended

    def take_heirs(self) -> list[Binding]:
        """Give the bindings that have jobs and, since the last call, have got the slot that they waited for."""
        heirs, self._heirs = self._heirs, []
        return heirs

    def _end(self, binding: Binding) -> list[Binding]:
        binding.has_ended = binding.is_ending = True
        self._idle.stop(binding)
        if binding.slot is None:
            self._waiting.remove(binding)
            return [binding]
        self._bound.remove(binding)
        heappush(self._free, binding.slot)
        if self._waiting:
            heir = self._waiting.popleft()
            heir.slot = self._take_slot()
            self._bound.add(heir)
            if heir.jobs:
                self._heirs.append(heir)
        return [binding]

    def _take_slot(self) -> int:
        if self._free:
            return heappop(self._free)
        self._next_slot += 1
        return self._next_slot - 1
