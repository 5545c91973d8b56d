"""Which thread sends a stream's executions, and when: `Outgoing`.

A stream has one writing thread. Waking it costs as much as many tiny executions, so a thread that makes a message due
may send it itself. What is put while the writing thread sends goes out together in its next message. `gathering`
decides what goes into a message. Knows no message format and no carrier.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from inferwire.transport.session.gathering import End, Gathering, Shipment, Withdrawn
from inferwire.transport.session.stream_execution import StreamExecution

AT_ONCE_BYTES = 1 << 20
"""Up to this size the thread that makes a message due may send it, which spares the waking of the writing thread: for
602 KB, more than a tenth of the client's CPU time. A larger one would hold it up for long: the system copies at once
what it has room for, and TLS encrypts all of it."""


class Outgoing:
    """A stream's queue of executions to send.

    Any thread may `put`, and only the writing thread calls `take`. `withdraw`, `end` and `interrupt` take no lock,
    because a destructor may call them at any point of any thread.

    Attributes:
        is_asleep: Whether the writing thread waits to be woken.
    """

    def __init__(self, gathering: Gathering) -> None:
        self.is_asleep = False
        self._gathering = gathering
        # Held by the thread that gathers a shipment; any but the writing thread holds it until the shipment is sent.
        self._turn = threading.Lock()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        # The writing thread has a shipment, and comes back for what is put meanwhile, unless it was the last.
        self._is_sending = False
        self._is_interrupted = False  # It is to return from `take` even with nothing to send.
        self._is_timed = False  # It sleeps no longer than executions may wait for others.

    def __repr__(self) -> str:
        return f"<Outgoing: {'asleep' if self.is_asleep else 'awake'}, {self._gathering!r}>"

    def put(self, execution: StreamExecution) -> bool:
        """Queue an execution; return whether the caller has to call `send` or `wake`.

        If not, it is sent later: by the writing thread after its present message or, if it waits for others, by the
        thread that makes them due, or by the writing thread after `LONGEST_HOLD_S`.
        """
        gathering = self._gathering
        gathering.new.append(execution)
        if self._is_sending:
            # The writing thread looks at what is new before it sleeps.
            return False
        if gathering.is_undue(execution):
            if self.is_asleep and not self._is_timed:
                self.wake()
            return False
        return True

    def send(self, execution: StreamExecution, send: Callable[[Shipment], None]) -> None:
        """Send an execution that was put, and what else is due, if that is worthwhile and small enough.

        It is worthwhile if as many executions of this header wait as are in flight or, with none in flight, as its last
        message carried. If it is not yet, or they are too large, the writing thread is left to send them.

        Args:
            execution: What was put.
            send: Sends a shipment without waiting for room. No other thread is given one before it returns: neither the
                cancelling of an execution nor an execution that was put later may overtake it.
        """
        gathering = self._gathering
        byte_size = gathering.byte_size + len(gathering.new) * execution.byte_size
        if byte_size > AT_ONCE_BYTES or self._turn.locked():
            self.wake()
            return
        # Not `acquire`: no signal handler can run between `with` taking the lock and entering the block. A thread that
        # has taken it since the check above holds it briefly.
        with self._turn:
            if self._is_sending:
                # The writing thread has taken a shipment since the check in `put`, and comes back for what is new.
                return
            shipment = gathering.lone(execution)
            if shipment is None:
                shipment = gathering.gather(is_patient=True)
                if shipment.is_last:
                    # Only the writing thread ends the stream: put the end back for it.
                    self.end()
                elif self.is_asleep and gathering.waiting and (not self._is_timed or gathering.is_any_due()):
                    self.wake()
            if shipment.stacks or shipment.cancels:
                send(shipment)

    def wake(self) -> None:
        """Wake the writing thread to look for something to send, if it sleeps."""
        if self.is_asleep:
            self.is_asleep = False
            self._wakes.put(None)

    def withdraw(self, execution: StreamExecution) -> None:
        """Queue the cancelling of an execution that was put before."""
        self._gathering.new.append(Withdrawn(execution))
        self.wake()

    def end(self) -> None:
        """Send nothing that is put from now on."""
        self._gathering.new.append(End.END)
        self.wake()

    def interrupt(self) -> None:
        """Make `take` return, even with an empty shipment; until it is called again, no other thread is given one."""
        self._is_sending = self._is_interrupted = True
        self.wake()

    def answers_came(self) -> None:
        """Check again whether waiting executions are due, because fewer are in flight."""
        gathering = self._gathering
        if not self.is_asleep or not (gathering.waiting or gathering.new):
            return
        turn: list[bool] = []
        try:
            # A single step, as it may be a thread that waits for an answer which comes here: no signal handler can run
            # between the taking of the turn and the noting of it.
            turn.extend(map(self._turn.acquire, (False,)))
            if not turn[0] or gathering.look_again():
                self.wake()
        finally:
            if turn and turn[0]:
                self._turn.release()

    def take(self) -> Shipment:
        """Wait for a shipment and return it. It may be empty if it is the last one, or after `interrupt`."""
        self._is_sending = False
        while True:
            with self._turn:
                shipment = self._gathering.gather(is_patient=False)
                if shipment or shipment.is_last or self._is_interrupted:
                    self._is_sending, self._is_interrupted = True, False
                    return shipment
            self._sleep()

    def _sleep(self) -> None:
        """Wait for something new, but no longer than executions may wait for others."""
        gathering = self._gathering
        with self._turn:
            self._is_timed = gathering.is_recent()
            self.is_asleep = True
            # No wake-up is lost: other threads look at this flag after adding work, and we look for work after setting
            # it.
            is_idle = not (gathering.new or self._is_interrupted or gathering.is_any_due())
        if is_idle:
            with suppress(Empty):
                self._wakes.get(timeout=gathering.time_left_s() if self._is_timed else None)
        self.is_asleep = False
