"""Executions that may travel as stacks, held back until a message of them is worthwhile: `HeldBack`.

A message costs as much as many tiny executions, so executions that are alike wait until there are as many of them as
are under way: one half of what a client has in flight travels while the other runs, and a lone one never waits. Owns
what waits and what is counted as under way. Takes no lock: whoever calls has the turn to send.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container
from typing import TypeAlias

from inferwire.transport.session.stream_execution import BESIDE_BYTES, EncodedHeader, Flow, StreamExecution

LONGEST_HOLD_S = 0.002
"""How long an execution waits for others at the most, should what is under way take longer than it did."""

Stack: TypeAlias = list[StreamExecution]
"""Executions of one header that travel as one; or one that travels alone."""


class HeldBack:
    """Those that wait, by their header.

    Attributes:
        waiting: The executions, of each header in the order they came.
        byte_size: How many bytes they count in a message, in all.
    """

    def __init__(self, wanted: Container[int], clock: Callable[[], float], longest_hold_s: float) -> None:
        """Give only executions whose ids are in `wanted`: the others were cancelled meanwhile."""
        self.waiting: dict[EncodedHeader, Stack] = {}
        self.byte_size = 0
        self._wanted = wanted
        self._clock = clock
        self._longest_hold_s = longest_hold_s
        self._until = 0.0
        self._flows: weakref.WeakKeyDictionary[EncodedHeader, Flow] = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<HeldBack: {sum(map(len, self.waiting.values()))} wait for others>"

    def add(self, execution: StreamExecution) -> None:
        """Have an execution wait for others."""
        if not self.waiting:
            self._until = self._clock() + self._longest_hold_s
        self.waiting.setdefault(execution.encoded, []).append(execution)
        self.byte_size += execution.byte_size + BESIDE_BYTES

    def take_due(self, *, is_all: bool, is_patient: bool) -> list[Stack]:
        """Take those that are worth a message; all of them where something has waited for too long.

        Args:
            is_all: Whether all of them go in any case.
            is_patient: Whether the caller may well submit more, as in `worthwhile`.
        """
        is_all = is_all or (bool(self.waiting) and self._clock() >= self._until)
        stacks: list[Stack] = []
        for header, waiting in list(self.waiting.items()):
            worthwhile = self.worthwhile(header, is_patient=is_patient)
            if is_all:
                stacks += self._release(header, len(waiting))
            elif len(waiting) >= worthwhile:
                stacks += self._release(header, max(worthwhile, self.flow_of(header).share_of(len(waiting))))
        return stacks

    def is_any_due(self) -> bool:
        """Whether something that waits is worth a message."""
        return any(len(stack) >= self.worthwhile(header, is_patient=False) for header, stack in self.waiting.items())

    def worthwhile(self, header: EncodedHeader, *, is_patient: bool) -> int:
        """How many executions of a header are worth a message; more of them where more may well be submitted."""
        flow = self.flow_of(header)
        return min(flow.expected if is_patient else flow.worthwhile, header.most_stacked)

    def flow_of(self, header: EncodedHeader) -> Flow:
        """Give what is counted of a header's executions."""
        flow = self._flows.get(header)
        if flow is None:
            flow = self._flows[header] = Flow()
        return flow

    def count(self, flow: Flow, *sent: StreamExecution) -> None:
        """Count executions as under way."""
        flow.sent += len(sent)
        flow.latest = len(sent)
        now = self._clock()
        for execution in sent:
            execution.flow, execution.sent_at = flow, now

    def is_recent(self) -> bool:
        """Whether something waits, or what waited last would not have waited for too long yet."""
        return bool(self.waiting) or self._clock() < self._until

    def time_left_s(self) -> float:
        """How long what waits may go on doing so."""
        return max(self._until - self._clock(), 0)

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
        self.count(self.flow_of(header), *wanted)
        most = header.most_stacked
        return [wanted[start : start + most] for start in range(0, len(wanted), most)]
