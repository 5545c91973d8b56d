"""What a stream has to send: executions, gathered into as few messages as the traffic allows.

Owns the queue between whoever submits and the one thread that writes. What piles up while a message is being written
goes out together in the next; which executions wait for others is `held_back`'s business. To wake the thread costs as
much as many tiny executions, so whoever makes a message due may take it and write it instead. Knows neither messages
nor the wire.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from queue import Empty, SimpleQueue
from time import perf_counter

from inferwire.transport.session.held_back import LONGEST_HOLD_S, HeldBack, Stack
from inferwire.transport.session.stream_execution import BESIDE_BYTES, EncodedHeader, StreamExecution

MOST_EXECUTIONS = 64
"""How many executions, or stacks of them, one message carries at the most, so that answers begin to come early."""

MOST_BYTES = 1 << 20
"""How many bytes one message gathers; a single execution may have more."""

AT_ONCE_BYTES = 1 << 16
"""Up to this size whoever makes a message due may send it: for a larger one the system may well have no room."""


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

    Only executions whose ids are in `wanted` are given: the others were cancelled meanwhile. `unsent` is told the ids
    of those others, but not of executions that may travel in stacks: nobody waits for their end.

    Attributes:
        most_bytes: How many bytes one message gathers.
        is_asleep: Whether the thread that takes waits for more than there is.
    """

    def __init__(
        self,
        wanted: Container[int],
        unsent: Callable[[int], object],
        clock: Callable[[], float] = perf_counter,
        longest_hold_s: float = LONGEST_HOLD_S,
    ) -> None:
        self.most_bytes = MOST_BYTES
        self.is_asleep = False
        self._wanted = wanted
        self._unsent = unsent
        self._new: deque[StreamExecution | _Withdrawn | _End] = deque()
        # Held by whoever gathers a batch: it alone takes from `_new` and changes what is held back. Whoever is not the
        # writing thread holds it until the batch is sent.
        self._turn = threading.Lock()
        self._held = HeldBack(wanted, clock, longest_hold_s)
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._is_sending = False  # The writing thread has a batch, and comes back for what is put meanwhile.
        self._is_interrupted = False  # It is to return from `take` in any case.
        self._is_timed = False  # It sleeps no longer than what is held back may wait.
        # The one header of which executions are held back, and how many new ones of it make none of them due.
        self._undue_header: EncodedHeader | None = None
        self._undue_count = -1

    def __repr__(self) -> str:
        return f"<Outgoing: {len(self._new)} new, {sum(map(len, self._held.waiting.values()))} wait for others>"

    def put(self, execution: StreamExecution) -> None:
        """Queue an execution for the writing thread."""
        self._new.append(execution)
        if self.is_asleep and not self._is_undue(execution):
            self._wake()

    def put_or_send(self, execution: StreamExecution, send: Callable[[Batch], None]) -> None:
        """Queue an execution, or send it, and what else is due, from here where that is worthwhile and small enough.

        Worthwhile means that as many executions of this header wait as are under way, or where none is, as went out in
        its last message. Else the writing thread sends it: once no more come, once it has sent what it is sending, or
        at once where it is large.

        Args:
            execution: What is to go.
            send: Sends a batch without waiting for room. Nobody is given another before it returns: what cancels an
                execution must not overtake it, nor must one that begins behind that.
        """
        self._new.append(execution)
        if self._is_sending:
            return
        if self._is_undue(execution):
            if self.is_asleep and not self._is_timed:
                self._wake()
            return
        byte_size = self._held.byte_size + len(self._new) * execution.byte_size
        if byte_size > AT_ONCE_BYTES or self._turn.locked():
            self._wake()
            return
        # Entered, which a signal's handler cannot come between. Who has taken it since has it for a moment.
        with self._turn:
            if self._is_sending:
                # The writing thread has taken a batch since, and comes back for what was put meanwhile.
                return
            batch = self._lone(execution) or self._gather(is_patient=True)
            if batch.is_last:
                self.end()
            elif self._held.waiting and self.is_asleep and (not self._is_timed or self._held.is_any_due()):
                self._wake()
            if batch.stacks or batch.cancels:
                send(batch)

    def withdraw(self, execution: StreamExecution) -> None:
        """Queue the cancelling of an execution that was put before."""
        self._new.append(_Withdrawn(execution))
        self._wake()

    def end(self) -> None:
        """Send nothing that is put from now on."""
        self._new.append(_End.END)
        self._wake()

    def interrupt(self) -> None:
        """Make `take` return, even with an empty batch; until it is called again, nobody else is given a batch."""
        self._is_sending = self._is_interrupted = True
        self._wake()

    def answers_came(self) -> None:
        """Look again whether what is held back is due, since fewer executions are under way."""
        if not self.is_asleep or not (self._held.waiting or self._new):
            return
        if not self._turn.acquire(blocking=False):
            self._wake()
            return
        try:
            self._note_undue(is_patient=False)
            if self._undue_header is None or len(self._new) > self._undue_count:
                self._wake()
        finally:
            self._turn.release()

    def take(self) -> Batch:
        """Wait until there is something to send, and give it. The last batch may be empty, or one after `interrupt`."""
        self._is_sending = False
        while True:
            with self._turn:
                batch = self._gather(is_patient=False)
                if batch or batch.is_last or self._is_interrupted:
                    self._is_sending, self._is_interrupted = bool(batch) or self._is_interrupted, False
                    return batch
            self._sleep()

    def _lone(self, execution: StreamExecution) -> Batch | None:
        """Give an execution as a batch by itself where nothing else waits: the quick way for one after the other."""
        # The only new one stays that until it is taken here: nobody else has the turn.
        is_alone = not self._held.waiting and len(self._new) == 1 and self._new[0] is execution
        if not is_alone or execution.id not in self._wanted:
            return None
        flow = self._held.flow_of(execution.encoded)
        is_stackable = execution.encoded.most_stacked > 1
        if is_stackable and flow.expected > 1:
            return None
        self._new.popleft()
        if is_stackable:
            self._held.count(flow, execution)
        return Batch([[execution]])

    def _gather(self, *, is_patient: bool) -> Batch:
        """Take what is due, up to a good size of message. Whoever calls has the turn."""
        batch, byte_size, is_full = Batch(), self._held.byte_size, False
        while self._new and not batch.is_last and not is_full:
            item = self._new.popleft()
            if isinstance(item, StreamExecution):
                byte_size += item.byte_size + BESIDE_BYTES
                if item.encoded.most_stacked > 1:
                    self._held.add(item)
                elif item.id in self._wanted:
                    batch.stacks.append([item])
                else:
                    self._unsent(item.id)
                is_full = len(batch.stacks) >= MOST_EXECUTIONS or byte_size >= self.most_bytes
            elif isinstance(item, _Withdrawn):
                batch.cancels.append(item.execution.id)
                if item.execution.flow is not None:
                    item.execution.flow.sent -= 1
            else:
                batch.is_last = True
        batch.stacks += self._held.take_due(is_all=is_full or batch.is_last, is_patient=is_patient)
        self._note_undue(is_patient=True)
        return batch

    def _sleep(self) -> None:
        """Wait until there is something new, or what is held back has waited long enough."""
        with self._turn:
            self._is_timed = self._held.is_recent()
            self.is_asleep = True
            # Whoever puts something looks at this flag afterwards, and we at what there is after setting it.
            is_idle = not self._new and not self._held.is_any_due()
        if is_idle:
            with suppress(Empty):
                self._wakes.get(timeout=self._held.time_left_s() if self._is_timed else None)
        self.is_asleep = False

    def _note_undue(self, *, is_patient: bool) -> None:
        """Note how many executions of the one header that is held back may be put before anybody need look at them."""
        self._undue_header = None
        if len(self._held.waiting) == 1:
            ((header, stack),) = self._held.waiting.items()
            # The header last: whoever puts reads both without the turn.
            self._undue_count = self._held.worthwhile(header, is_patient=is_patient) - len(stack) - 1
            self._undue_header = header

    def _is_undue(self, execution: StreamExecution) -> bool:
        """Whether nothing is due with this one, which was put, either."""
        is_small = execution.byte_size * MOST_EXECUTIONS <= self.most_bytes
        return execution.encoded is self._undue_header and is_small and len(self._new) <= self._undue_count

    def _wake(self) -> None:
        self.is_asleep = False
        self._wakes.put(None)
