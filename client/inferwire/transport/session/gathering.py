"""Which of a stream's executions go into its next message, and which wait for others: `Gathering`.

A message costs as much as many tiny executions. If its time counts beside that of the inferences, executions of one
header wait until as many of them have gathered as are in flight, so that one half travels while the other half runs. A
lone execution never waits. Owns the new executions, those that wait, and the counts of those in flight. Knows no
threads, no message format and no carrier.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import Enum, auto
from time import perf_counter
from typing import TypeAlias

from inferwire.transport.session.stream_execution import BESIDE_BYTES, EncodedHeader, Flow, StreamExecution

MOST_EXECUTIONS = 64
"""How many executions, or stacks of them, one message carries at most, so that the first answers come early."""

MOST_BYTES = 1 << 19
"""How many bytes one message gathers; a single execution may have more. With twice as many, two pictures of 602 KB
travel in one message, and neither begins before both have arrived: with four in flight over a network of 10 ms, a
seventh fewer pictures run."""

LONGEST_HOLD_S = 0.002
"""How long an execution waits for others at most, in case the executions in flight take longer than before."""

Stack: TypeAlias = list[StreamExecution]
"""Executions of one header that travel stacked as one, or a single execution."""


@dataclass(slots=True)
class Shipment:
    """The contents of one message: stacks, and the ids of executions to cancel; and whether it is the last one."""

    stacks: list[Stack] = field(default_factory=list[Stack])
    cancels: list[int] = field(default_factory=list[int])
    is_last: bool = False

    def __bool__(self) -> bool:
        return bool(self.stacks or self.cancels)


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The cancelling of an execution that was put into `Gathering.new` before."""

    execution: StreamExecution


class End(Enum):
    """The end of `Gathering.new`: nothing that is put behind it is sent."""

    END = auto()


class Gathering:
    """The executions of one stream that are not sent yet.

    A thread calls its methods only while it has the turn to send, but for `is_undue` and `time_left_s`, which any
    thread may call at any time.

    Only executions whose ids are in `wanted` are sent; the others were cancelled meanwhile. `unsent` is called with the
    id of each that is withdrawn before it was sent.

    Attributes:
        new: What `lone` and `gather` have not taken yet. Any thread may append to it, with or without the turn.
        waiting: The executions that wait for others, by header, in the order they came.
        byte_size: How many bytes the waiting executions count in a message, in all.
        most_bytes: How many bytes one message gathers.
    """

    def __init__(
        self,
        wanted: Container[int],
        unsent: Callable[[int], object],
        clock: Callable[[], float] = perf_counter,
        longest_hold_s: float = LONGEST_HOLD_S,
    ) -> None:
        self.new: deque[StreamExecution | Withdrawn | End] = deque()
        self.waiting: dict[EncodedHeader, Stack] = {}
        self.byte_size = 0
        self.most_bytes = MOST_BYTES
        self._wanted = wanted
        self._unsent = unsent
        self._clock = clock
        self._longest_hold_s = longest_hold_s
        self._until = 0.0
        self._flows: weakref.WeakKeyDictionary[EncodedHeader, Flow] = weakref.WeakKeyDictionary()
        # If executions of only one header wait: that header, and how many more of it may come before any is due.
        self._undue: tuple[EncodedHeader | None, int] = (None, 0)

    def __repr__(self) -> str:
        return f"<Gathering: {len(self.new)} new, {sum(map(len, self.waiting.values()))} wait for others>"

    def is_undue(self, execution: StreamExecution) -> bool:
        """Whether nothing becomes due with this new execution, judging by the last `gather` or `look_again`."""
        header, most = self._undue
        is_small = execution.byte_size * MOST_EXECUTIONS <= self.most_bytes
        return execution.encoded is header and is_small and len(self.new) <= most

    def lone(self, execution: StreamExecution) -> Shipment | None:
        """Take a new execution if it is the only one and is due: the fast path for one after the other."""
        new = self.new
        # If it is first in `new`, it stays there until it is taken below: no other thread has the turn.
        if self.waiting or len(new) != 1 or new[0] is not execution or execution.id not in self._wanted:
            return None
        if execution.encoded.most_stacked > 1:
            flow = self._flow_of(execution.encoded)
            if flow.expected > 1:
                return None
            self._count(flow, [execution])
        else:
            execution.sent_as = execution.id
        new.popleft()
        return Shipment([[execution]])

    def gather(self, *, is_patient: bool) -> Shipment:
        """Take the executions that are due, up to what one message gathers.

        Args:
            is_patient: Whether the calling thread is likely to submit more. If so, a header with none in flight waits
                for as many executions as its last message carried.
        """
        shipment, lone_bytes, is_full = Shipment(), 0, False
        while self.new and not shipment.is_last and not is_full:
            item = self.new.popleft()
            if isinstance(item, StreamExecution):
                if item.encoded.most_stacked > 1:
                    (self.waiting.get(item.encoded) or self._begin_to_wait(item.encoded)).append(item)
                    self.byte_size += item.byte_size + BESIDE_BYTES
                elif item.id in self._wanted:
                    item.sent_as = item.id
                    shipment.stacks.append([item])
                    lone_bytes += item.byte_size + BESIDE_BYTES
                is_full = len(shipment.stacks) >= MOST_EXECUTIONS or self.byte_size + lone_bytes >= self.most_bytes
            elif isinstance(item, Withdrawn):
                shipment.cancels.append(item.execution.id)
                if item.execution.flow is not None:
                    item.execution.flow.sent -= 1
                elif item.execution.sent_as != item.execution.id:
                    self._unsent(item.execution.id)
            else:
                shipment.is_last = True
        shipment.stacks += self._due(is_all=is_full or shipment.is_last, is_patient=is_patient)
        self._note_undue(is_patient=True)
        return shipment

    def is_any_due(self) -> bool:
        """Whether some waiting executions are worth a message, for a thread that submits no more."""
        return any(len(stack) >= self._worthwhile(header, is_patient=False) for header, stack in self.waiting.items())

    def look_again(self) -> bool:
        """Whether something may be due, waiting or new, now that fewer executions are in flight."""
        self._note_undue(is_patient=False)
        header, most = self._undue
        return header is None or len(self.new) > most

    def is_recent(self) -> bool:
        """Whether executions wait, or the deadline of those that waited last has not passed."""
        return bool(self.waiting) or self._clock() < self._until

    def time_left_s(self) -> float:
        """How much longer the waiting executions may wait."""
        return max(self._until - self._clock(), 0)

    def _begin_to_wait(self, header: EncodedHeader) -> Stack:
        """Add a stack for a header of which no execution waits, and return it."""
        if not self.waiting:
            self._until = self._clock() + self._longest_hold_s
        stack = self.waiting[header] = []
        return stack

    def _due(self, *, is_all: bool, is_patient: bool) -> list[Stack]:
        """Take the waiting executions that are worth a message; all of them if their deadline has passed."""
        is_all = is_all or (bool(self.waiting) and self._clock() >= self._until)
        stacks: list[Stack] = []
        for header, waiting in list(self.waiting.items()):
            worthwhile = self._worthwhile(header, is_patient=is_patient)
            if is_all:
                stacks += self._release(header, len(waiting))
            elif len(waiting) >= worthwhile:
                stacks += self._release(header, max(worthwhile, self._flow_of(header).share_of(len(waiting))))
        return stacks

    def _release(self, header: EncodedHeader, count: int) -> list[Stack]:
        """Take the first `count` waiting executions of one header, as stacks."""
        waiting = self.waiting.pop(header)
        if count < len(waiting):
            self.waiting[header] = waiting[count:]
            self._until = self._clock() + self._longest_hold_s
        taken = waiting[:count]
        # They may differ in size: strings have any length.
        self.byte_size -= sum([execution.byte_size for execution in taken]) + len(taken) * BESIDE_BYTES
        wanted = [execution for execution in taken if execution.id in self._wanted]
        self._count(self._flow_of(header), wanted)
        most = header.most_stacked
        return [wanted[start : start + most] for start in range(0, len(wanted), most)]

    def _worthwhile(self, header: EncodedHeader, *, is_patient: bool) -> int:
        """How many executions of a header are worth a message; a patient thread waits for more of them."""
        flow = self._flow_of(header)
        return min(flow.expected if is_patient else flow.worthwhile, header.most_stacked)

    def _flow_of(self, header: EncodedHeader) -> Flow:
        """Give the counts of a header's executions."""
        flow = self._flows.get(header)
        if flow is None:
            flow = self._flows[header] = Flow()
        return flow

    def _count(self, flow: Flow, sent: Stack) -> None:
        """Count executions as in flight."""
        flow.sent += len(sent)
        flow.latest = len(sent)
        now = self._clock()
        for execution in sent:
            execution.flow, execution.sent_at = flow, now

    def _note_undue(self, *, is_patient: bool) -> None:
        """Note how many more executions of the only waiting header may be put before `gather` would find any due."""
        if len(self.waiting) == 1:
            ((header, stack),) = self.waiting.items()
            self._undue = header, self._worthwhile(header, is_patient=is_patient) - len(stack) - 1
        else:
            self._undue = None, 0
