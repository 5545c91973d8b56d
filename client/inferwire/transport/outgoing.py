"""What a stream has to send: executions gathered into as few messages, and stacks, as the traffic allows.

Owns the queue between whoever submits and the one thread that writes. What piles up while a message is
being written goes out together in the next. A message costs as much as many tiny executions, so executions
that are alike wait until there are as many of them as are under way: one half of what a client has in
flight travels while the other runs, and a lone one never waits. Knows neither messages nor the wire.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TypeAlias

from inferwire.transport.stream_execution import EncodedHeader, Flow, StreamExecution

MOST_EXECUTIONS = 64
"""How many executions, or stacks of them, one message carries at the most, so that answers begin to come early."""

MOST_BYTES = 1 << 20
"""How many bytes of inputs one message gathers; a single execution may have more."""

LONGEST_HOLD_S = 0.005
"""How long an execution waits for others at the most, should what is under way take longer than it did."""


Stack: TypeAlias = list[StreamExecution]
"""Executions of one header that travel as one; or one that travels alone."""


@dataclass(slots=True)
class Batch:
    """What goes into one message: stacks, and the ids of executions to cancel; and whether it is the last one."""

    stacks: list[Stack] = field(default_factory=list[Stack])
    cancels: list[int] = field(default_factory=list[int])
    is_last: bool = False

    def __bool__(self) -> bool:
        return bool(self.stacks or self.cancels)


@dataclass(frozen=True, slots=True)
class _Withdrawn:
    """That nobody wants an execution any more."""

    execution: StreamExecution


class _End(Enum):
    """That nothing more is to be sent."""

    END = auto()


class Outgoing:
    """Executions in the order they came. One thread takes them; any may put, also from a destructor.

    Of those that were put, only the `wanted` ones are given, by their ids.

    Attributes:
        most_bytes: How many bytes of inputs one message gathers.
        is_asleep: Whether the thread that takes waits for more than there is.
    """

    def __init__(
        self,
        wanted: Container[int],
        clock: Callable[[], float] = perf_counter,
        longest_hold_s: float = LONGEST_HOLD_S,
    ) -> None:
        self.most_bytes = MOST_BYTES
        self._clock = clock
        self._longest_hold_s = longest_hold_s
        self._wanted = wanted
        self._new: deque[StreamExecution | _Withdrawn | _End] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._flows: weakref.WeakKeyDictionary[EncodedHeader, Flow] = weakref.WeakKeyDictionary()
        self._held: dict[EncodedHeader, Stack] = {}
        self._held_bytes = 0
        self._held_until = 0.0
        self.is_asleep = False
        self._quiet: EncodedHeader | None = None
        self._quiet_up_to = 0

    def __repr__(self) -> str:
        return f"<Outgoing: {len(self._new)} new, {sum(map(len, self._held.values()))} wait for others>"

    def put(self, execution: StreamExecution) -> None:
        """Have an execution sent."""
        self._new.append(execution)
        if self.is_asleep and not self._is_quiet(execution):
            self._wake()

    def withdraw(self, execution: StreamExecution) -> None:
        """Have an execution cancelled that was put before."""
        self._new.append(_Withdrawn(execution))
        self._wake()

    def end(self) -> None:
        """Have nothing sent that is put from now on."""
        self._new.append(_End.END)
        self._wake()

    def answers_came(self) -> None:
        """Look again at what waits for others, since fewer are under way."""
        if self.is_asleep and self._held:
            self._wake()

    def take(self) -> Batch:
        """Wait until there is something to send, and give it. The last batch may be empty."""
        while True:
            batch = self._gather()
            if batch or batch.is_last:
                return batch
            self._sleep()

    def _gather(self) -> Batch:
        """Take what is there and is due, up to a good size of message."""
        batch = Batch()
        byte_size = self._held_bytes
        is_full = False
        while self._new and not batch.is_last and not is_full:
            item = self._new.popleft()
            if isinstance(item, StreamExecution):
                byte_size += item.byte_size
                self._sort_in(item, batch)
                is_full = len(batch.stacks) >= MOST_EXECUTIONS or byte_size >= self.most_bytes
            elif isinstance(item, _Withdrawn):
                self._cancel(item.execution, batch)
            else:
                batch.is_last = True
        is_over = is_full or batch.is_last or (self._held and self._clock() >= self._held_until)
        for header in list(self._held):
            if is_over or self._is_due(header):
                batch.stacks += self._release(header)
        self._held_bytes = byte_size if self._held else 0
        return batch

    def _sort_in(self, execution: StreamExecution, batch: Batch) -> None:
        if execution.encoded.most_stacked == 1:
            if execution.id in self._wanted:
                batch.stacks.append([execution])
            return
        if not self._held:
            self._held_until = self._clock() + self._longest_hold_s
        self._held.setdefault(execution.encoded, []).append(execution)

    def _cancel(self, execution: StreamExecution, batch: Batch) -> None:
        batch.cancels.append(execution.id)
        if execution.flow is not None:
            execution.flow.sent -= 1

    def _is_due(self, header: EncodedHeader) -> bool:
        return len(self._held[header]) >= min(self._flow_of(header).worthwhile, header.most_stacked)

    def _release(self, header: EncodedHeader) -> list[Stack]:
        """Give what waited of one header as stacks."""
        flow, most = self._flow_of(header), header.most_stacked
        wanted = [execution for execution in self._held.pop(header) if execution.id in self._wanted]
        flow.sent += len(wanted)
        now = self._clock()
        for execution in wanted:
            execution.flow, execution.sent_at = flow, now
        return [wanted[start : start + most] for start in range(0, len(wanted), most)]

    def _flow_of(self, header: EncodedHeader) -> Flow:
        flow = self._flows.get(header)
        if flow is None:
            flow = self._flows[header] = Flow()
        return flow

    def _sleep(self) -> None:
        """Wait until somebody rings, or what is held has waited long enough."""
        self._quiet = None
        if len(self._held) == 1:
            ((header, stack),) = self._held.items()
            self._quiet_up_to = min(self._flow_of(header).worthwhile, header.most_stacked) - len(stack) - 1
            self._quiet = header
        self.is_asleep = True
        # Whoever puts or counts something looks at this flag afterwards, and we at what there is after setting it.
        if not self._new and not any(map(self._is_due, self._held)):
            with suppress(Empty):
                self._bell.get(timeout=max(self._held_until - self._clock(), 0) if self._held else None)
        self.is_asleep = False

    def _is_quiet(self, execution: StreamExecution) -> bool:
        """Whether one that comes while others are held wakes nobody: that would cost more than it is about."""
        is_small = execution.byte_size * MOST_EXECUTIONS <= self.most_bytes
        return execution.encoded is self._quiet and is_small and len(self._new) <= self._quiet_up_to

    def _wake(self) -> None:
        self.is_asleep = False
        self._bell.put(None)
