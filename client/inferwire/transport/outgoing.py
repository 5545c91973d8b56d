"""What a stream has to send: executions gathered into as few messages, and stacks, as the traffic allows.

Owns the queue between whoever submits and the one thread that writes. What piles up while a message is being written
goes out together in the next. A message costs as much as many tiny executions, so executions that are alike wait until
there are as many of them as are under way: one half of what a client has in flight travels while the other runs, and a
lone one never waits. To wake the thread costs as much again, so whoever makes a message due may take it and write it
instead. Knows neither messages nor the wire.
"""

from __future__ import annotations

import threading
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

AT_ONCE_BYTES = 1 << 16
"""Up to this size whoever makes a message due may send it: for a larger one the system may well have no room."""

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
    """Executions in the order they came. One thread takes them; any may put, and withdraw also from a destructor.

    Only executions whose ids are in `wanted` are given: the others were cancelled meanwhile. Of those that would have
    travelled alone, `unsent` is told the ids.

    Attributes:
        most_bytes: How many bytes of inputs one message gathers.
        is_asleep: Whether the thread that takes waits for more than there is.
    """

    def __init__(
        self,
        wanted: Container[int],
        clock: Callable[[], float] = perf_counter,
        longest_hold_s: float = LONGEST_HOLD_S,
        unsent: Callable[[int], object] = int,
    ) -> None:
        self.most_bytes = MOST_BYTES
        self._clock = clock
        self._longest_hold_s = longest_hold_s
        self._wanted = wanted
        self._unsent = unsent
        self._turn = threading.Lock()
        self._new: deque[StreamExecution | _Withdrawn | _End] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._flows: weakref.WeakKeyDictionary[EncodedHeader, Flow] = weakref.WeakKeyDictionary()
        self._held: dict[EncodedHeader, Stack] = {}
        self._held_bytes = 0
        self._held_until = 0.0
        self.is_asleep = False
        self._is_sending = False
        self._is_called = False
        self._quiet: EncodedHeader | None = None
        self._quiet_up_to = -1
        self._is_timed = False

    def __repr__(self) -> str:
        return f"<Outgoing: {len(self._new)} new, {sum(map(len, self._held.values()))} wait for others>"

    def put(self, execution: StreamExecution) -> None:
        """Queue an execution for the writing thread."""
        self._new.append(execution)
        if self.is_asleep and not self._is_quiet(execution):
            self._wake()

    def put_and_take(self, execution: StreamExecution) -> Batch | None:
        """Queue an execution. Give a batch for the caller to send itself where that is worthwhile, and small enough.

        Worthwhile means: as many executions of this header wait as went out in its last message. Else the writing
        thread sends it: once no more come, once it has sent what it is sending, or at once where it is large.
        """
        self._new.append(execution)
        if self._is_sending:
            return None
        if self._is_quiet(execution):
            if self.is_asleep and not self._is_timed:
                self._wake()
            return None
        byte_size = self._held_bytes + len(self._new) * execution.byte_size
        if byte_size > AT_ONCE_BYTES or not self._turn.acquire(blocking=False):
            self._wake()
            return None
        try:
            batch = self._lone(execution) or self._gather_new(is_patient=True)
            if batch.is_last:
                self.end()
            elif self._held and self.is_asleep and not self._is_timed:
                self._wake()
            return batch
        finally:
            self._turn.release()

    def withdraw(self, execution: StreamExecution) -> None:
        """Queue the cancelling of an execution that was put before."""
        self._new.append(_Withdrawn(execution))
        self._wake()

    def end(self) -> None:
        """Send nothing that is put from now on."""
        self._new.append(_End.END)
        self._wake()

    def call(self) -> None:
        """Make `take` return, even with an empty batch; until it is called again, nobody else is given a batch."""
        self._is_sending = self._is_called = True
        self._wake()

    def answers_came(self) -> None:
        """Look again whether what is held back is due, since fewer executions are under way."""
        if not self.is_asleep or not (self._held or self._new):
            return
        if not self._turn.acquire(blocking=False):
            self._wake()
            return
        try:
            self._settle(is_patient=False)
            if self._quiet is None or len(self._new) > self._quiet_up_to:
                self._wake()
        finally:
            self._turn.release()

    def take(self) -> Batch:
        """Wait until there is something to send, and give it. The last batch may be empty, as may one after `call`."""
        self._is_sending = False
        while True:
            batch = self._gather()
            if batch or batch.is_last or self._is_called:
                self._is_sending, self._is_called = bool(batch) or self._is_called, False
                return batch
            self._sleep()

    def _lone(self, execution: StreamExecution) -> Batch | None:
        """Give an execution as a batch by itself where nothing else waits: the quick way for one after the other."""
        if self._held or len(self._new) != 1 or execution.id not in self._wanted:
            return None
        header = execution.encoded
        flow = self._flow_of(header)
        if header.most_stacked > 1 and flow.expected > 1:
            return None
        first = self._new.popleft()
        if first is not execution:
            self._new.appendleft(first)
            return None
        if header.most_stacked > 1:
            self._count(flow, execution)
        return Batch([[execution]])

    def _gather(self) -> Batch:
        """Take what is due, up to a good size of message."""
        with self._turn:
            return self._gather_new()

    def _gather_new(self, *, is_patient: bool = False) -> Batch:
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
        for header, waiting in list(self._held.items()):
            worthwhile = self._worthwhile(header, is_patient=is_patient)
            if is_over:
                batch.stacks += self._release(header, len(waiting))
            elif len(waiting) >= worthwhile:
                batch.stacks += self._release(header, max(worthwhile, self._flow_of(header).share_of(len(waiting))))
        self._held_bytes = sum([len(waiting) * waiting[0].byte_size for waiting in self._held.values()])
        self._settle(is_patient=True)
        return batch

    def _sort_in(self, execution: StreamExecution, batch: Batch) -> None:
        if execution.encoded.most_stacked == 1:
            if execution.id in self._wanted:
                batch.stacks.append([execution])
            else:
                self._unsent(execution.id)
            return
        if not self._held:
            self._held_until = self._clock() + self._longest_hold_s
        self._held.setdefault(execution.encoded, []).append(execution)

    def _cancel(self, execution: StreamExecution, batch: Batch) -> None:
        batch.cancels.append(execution.id)
        if execution.flow is not None:
            execution.flow.sent -= 1

    def _is_due(self, header: EncodedHeader) -> bool:
        return len(self._held[header]) >= self._worthwhile(header, is_patient=False)

    def _worthwhile(self, header: EncodedHeader, *, is_patient: bool) -> int:
        flow = self._flow_of(header)
        return min(flow.expected if is_patient else flow.worthwhile, header.most_stacked)

    def _release(self, header: EncodedHeader, count: int) -> list[Stack]:
        """Take the first `count` executions of one header that wait, as stacks."""
        flow, most = self._flow_of(header), header.most_stacked
        waiting = self._held.pop(header)
        if count < len(waiting):
            self._held[header] = waiting[count:]
            self._held_until = self._clock() + self._longest_hold_s
        wanted = [execution for execution in waiting[:count] if execution.id in self._wanted]
        self._count(flow, *wanted)
        return [wanted[start : start + most] for start in range(0, len(wanted), most)]

    def _count(self, flow: Flow, *sent: StreamExecution) -> None:
        """Count executions as under way."""
        flow.sent += len(sent)
        flow.latest = len(sent)
        now = self._clock()
        for execution in sent:
            execution.flow, execution.sent_at = flow, now

    def _flow_of(self, header: EncodedHeader) -> Flow:
        flow = self._flows.get(header)
        if flow is None:
            flow = self._flows[header] = Flow()
        return flow

    def _sleep(self) -> None:
        """Wait until there is something new, or what is held back has waited long enough."""
        with self._turn:
            self._is_timed = bool(self._held)
            self.is_asleep = True
            # Whoever puts something looks at this flag afterwards, and we at what there is after setting it.
            is_idle = not self._new and not any(map(self._is_due, self._held))
        if is_idle:
            with suppress(Empty):
                self._bell.get(timeout=max(self._held_until - self._clock(), 0) if self._is_timed else None)
        self.is_asleep = False

    def _settle(self, *, is_patient: bool) -> None:
        """Note how many more of the one header that waits may be put before it is worthwhile to look at them."""
        self._quiet = None
        if len(self._held) == 1:
            ((header, stack),) = self._held.items()
            self._quiet_up_to = self._worthwhile(header, is_patient=is_patient) - len(stack) - 1
            self._quiet = header

    def _is_quiet(self, execution: StreamExecution) -> bool:
        is_small = execution.byte_size * MOST_EXECUTIONS <= self.most_bytes
        return execution.encoded is self._quiet and is_small and len(self._new) <= self._quiet_up_to

    def _wake(self) -> None:
        self.is_asleep = False
        self._bell.put(None)
