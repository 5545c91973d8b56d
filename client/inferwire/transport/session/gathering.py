"""What of a stream's executions goes into its next message, and what waits for others: `Gathering`.

A message costs as much as many tiny executions, so executions that are alike wait until there are as many of them as
are under way: one half of what a client has in flight travels while the other runs, and a lone one never waits. Owns
what is new, what waits, and what is counted as under way. Knows no threads, and neither messages nor the wire.
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
"""How many executions, or stacks of them, one message carries at the most, so that answers begin to come early."""

MOST_BYTES = 1 << 19
"""How many bytes one message gathers; a single execution may have more. With twice as many, two pictures of 602 KB
travel as one, and none begins before both have come: with four in flight over 10 ms that is a seventh fewer."""

LONGEST_HOLD_S = 0.002
"""How long an execution waits for others at the most, should what is under way take longer than it did."""

Stack: TypeAlias = list[StreamExecution]
"""Executions of one header that travel as one; or one that travels alone."""


@dataclass(slots=True)
class Shipment:
    """What goes into one message: stacks, and the ids of executions to cancel; and whether it is the last one."""

    stacks: list[Stack] = field(default_factory=list[Stack])
    cancels: list[int] = field(default_factory=list[int])
    is_last: bool = False

    def __bool__(self) -> bool:
        return bool(self.stacks or self.cancels)


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """That nobody wants an execution any more, which was new before."""

    execution: StreamExecution


class End(Enum):
    """That nothing is to be sent of what is new from now on."""

    END = auto()


class Gathering:
    """What is to be sent. Whoever calls has the turn to send, but for `is_undue`, which anybody may ask.

    Only executions whose ids are in `wanted` are given: the others were cancelled meanwhile. `unsent` is told the ids
    of those others, but not of executions that may travel in stacks: nobody waits for their end.

    Attributes:
        new: What nobody has looked at yet. Anybody may append to it, whoever has the turn.
        waiting: The executions that wait for others, by their header, of each in the order they came.
        byte_size: How many bytes these count in a message, in all.
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
        # The one header that waits, if it is one, and up to how many new ones make none of it due.
        self._undue: tuple[EncodedHeader | None, int] = (None, 0)

    def __repr__(self) -> str:
        return f"<Gathering: {len(self.new)} new, {sum(map(len, self.waiting.values()))} wait for others>"

    def is_undue(self, execution: StreamExecution) -> bool:
        """Whether nothing is due with this new one, either: as far as was known when somebody looked last."""
        header, most = self._undue
        is_small = execution.byte_size * MOST_EXECUTIONS <= self.most_bytes
        return execution.encoded is header and is_small and len(self.new) <= most

    def lone(self, execution: StreamExecution) -> Shipment | None:
        """Give a new execution by itself where there is nothing else: the quick way for one after the other."""
        new = self.new
        # The only new one stays that until it is taken here: nobody else has the turn.
        if self.waiting or len(new) != 1 or new[0] is not execution or execution.id not in self._wanted:
            return None
        if execution.encoded.most_stacked > 1:
            flow = self._flow_of(execution.encoded)
            if flow.expected > 1:
                return None
            self._count(flow, [execution])
        new.popleft()
        return Shipment([[execution]])

    def gather(self, *, is_patient: bool) -> Shipment:
        """Take what is due, up to a good size of message.

        Args:
            is_patient: Whether the caller may well submit more: then where all are back, as many are awaited as went
                last.
        """
        shipment, lone_bytes, is_full = Shipment(), 0, False
        while self.new and not shipment.is_last and not is_full:
            item = self.new.popleft()
            if isinstance(item, StreamExecution):
                if item.encoded.most_stacked > 1:
                    (self.waiting.get(item.encoded) or self._begin_to_wait(item.encoded)).append(item)
                    self.byte_size += item.byte_size + BESIDE_BYTES
                elif item.id in self._wanted:
                    shipment.stacks.append([item])
                    lone_bytes += item.byte_size + BESIDE_BYTES
                else:
                    self._unsent(item.id)
                is_full = len(shipment.stacks) >= MOST_EXECUTIONS or self.byte_size + lone_bytes >= self.most_bytes
            elif isinstance(item, Withdrawn):
                shipment.cancels.append(item.execution.id)
                if item.execution.flow is not None:
                    item.execution.flow.sent -= 1
            else:
                shipment.is_last = True
        shipment.stacks += self._due(is_all=is_full or shipment.is_last, is_patient=is_patient)
        self._note_undue(is_patient=True)
        return shipment

    def is_any_due(self) -> bool:
        """Whether something that waits is worth a message to whoever does not submit more."""
        return any(len(stack) >= self._worthwhile(header, is_patient=False) for header, stack in self.waiting.items())

    def look_again(self) -> bool:
        """Whether something may be due, new or not, now that fewer executions are under way."""
        self._note_undue(is_patient=False)
        header, most = self._undue
        return header is None or len(self.new) > most

    def is_recent(self) -> bool:
        """Whether something waits, or what waited last would not have waited for too long yet."""
        return bool(self.waiting) or self._clock() < self._until

    def time_left_s(self) -> float:
        """How long what waits may go on doing so."""
        return max(self._until - self._clock(), 0)

    def _begin_to_wait(self, header: EncodedHeader) -> Stack:
        """Give the stack of a header of which no execution waits."""
        if not self.waiting:
            self._until = self._clock() + self._longest_hold_s
        stack = self.waiting[header] = []
        return stack

    def _due(self, *, is_all: bool, is_patient: bool) -> list[Stack]:
        """Take those that wait and are worth a message; all of them where something has waited for too long."""
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
        """Take the first `count` executions of one header that wait, as stacks."""
        waiting = self.waiting.pop(header)
        if count < len(waiting):
            self.waiting[header] = waiting[count:]
            self._until = self._clock() + self._longest_hold_s
        taken = waiting[:count]
        # Not all have the same size: strings may be of any length.
        self.byte_size -= sum([execution.byte_size for execution in taken]) + len(taken) * BESIDE_BYTES
        wanted = [execution for execution in taken if execution.id in self._wanted]
        self._count(self._flow_of(header), wanted)
        most = header.most_stacked
        return [wanted[start : start + most] for start in range(0, len(wanted), most)]

    def _worthwhile(self, header: EncodedHeader, *, is_patient: bool) -> int:
        """How many executions of a header are worth a message; more of them where more may well be submitted."""
        flow = self._flow_of(header)
        return min(flow.expected if is_patient else flow.worthwhile, header.most_stacked)

    def _flow_of(self, header: EncodedHeader) -> Flow:
        """Give what is counted of a header's executions."""
        flow = self._flows.get(header)
        if flow is None:
            flow = self._flows[header] = Flow()
        return flow

    def _count(self, flow: Flow, sent: Stack) -> None:
        """Count executions as under way."""
        flow.sent += len(sent)
        flow.latest = len(sent)
        now = self._clock()
        for execution in sent:
            execution.flow, execution.sent_at = flow, now

    def _note_undue(self, *, is_patient: bool) -> None:
        """Note how many executions of the one header that waits may be put before anybody need look at them."""
        if len(self.waiting) == 1:
            ((header, stack),) = self.waiting.items()
            self._undue = header, self._worthwhile(header, is_patient=is_patient) - len(stack) - 1
        else:
            self._undue = None, 0
