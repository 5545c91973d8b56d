"""Who sends what a stream has to send, and when: `Outgoing`.

One thread writes. To wake it costs as much as many tiny executions, so whoever makes a message due may take it and
write it instead; what piles up while it writes goes out together in its next message. What goes into a message is
`gathering`'s business. Knows neither messages nor the wire.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from inferwire.transport.session.gathering import End, Gathering, Shipment, Withdrawn
from inferwire.transport.session.stream_execution import StreamExecution

AT_ONCE_BYTES = 1 << 16
"""Up to this size whoever makes a message due may send it: for a larger one the system may well have no room."""


class Outgoing:
    """Executions in the order they came.

    The writing thread alone takes, and any other may put. Whatever ends here may come from a destructor, at any point
    of any thread: `withdraw`, `end` and `interrupt` take no lock.

    Attributes:
        is_asleep: Whether the writing thread waits for more than there is.
    """

    def __init__(self, gathering: Gathering) -> None:
        self.is_asleep = False
        self._gathering = gathering
        # Held by whoever gathers a shipment; who is not the writing thread holds it until that is sent.
        self._turn = threading.Lock()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        # The writing thread has a shipment, and comes back for what is put meanwhile, unless it was the last.
        self._is_sending = False
        self._is_interrupted = False  # It is to return from `take` in any case.
        self._is_timed = False  # It sleeps no longer than what waits for others may.

    def __repr__(self) -> str:
        return f"<Outgoing: {'asleep' if self.is_asleep else 'awake'}, {self._gathering!r}>"

    def put(self, execution: StreamExecution) -> bool:
        """Queue an execution, and tell whether whoever did is to `send` it or to `wake` the writing thread.

        Else that sends it: once no more come, or once it has sent what it is sending.
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
        """Send an execution that was put, and what else is due, where that is worthwhile and small enough.

        Worthwhile means that as many executions of this header wait as are under way, or where none is, as went out in
        its last message. Else the writing thread is woken: a large one it sends at once.

        Args:
            execution: What was put.
            send: Sends a shipment without waiting for room. Nobody is given another before it returns: what cancels an
                execution must not overtake it, nor must one that begins behind that.
        """
        gathering = self._gathering
        byte_size = gathering.byte_size + len(gathering.new) * execution.byte_size
        if byte_size > AT_ONCE_BYTES or self._turn.locked():
            self.wake()
            return
        # Entered, which a signal's handler cannot come between. Who has taken it since has it for a moment.
        with self._turn:
            if self._is_sending:
                # The writing thread has taken a shipment since, and comes back for what was put meanwhile.
                return
            shipment = gathering.lone(execution)
            if shipment is None:
                shipment = gathering.gather(is_patient=True)
                if shipment.is_last:
                    # It is for the writing thread.
                    self.end()
                elif self.is_asleep and gathering.waiting and (not self._is_timed or gathering.is_any_due()):
                    self.wake()
            if shipment.stacks or shipment.cancels:
                send(shipment)

    def wake(self) -> None:
        """Have the writing thread look for something to send, if it sleeps."""
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
        """Make `take` return, even with an empty shipment; until it is called again, nobody else is given one."""
        self._is_sending = self._is_interrupted = True
        self.wake()

    def answers_came(self) -> None:
        """Look again whether what waits for others is due, since fewer executions are under way."""
        gathering = self._gathering
        if not self.is_asleep or not (gathering.waiting or gathering.new):
            return
        if not self._turn.acquire(blocking=False):
            self.wake()
            return
        try:
            if gathering.look_again():
                self.wake()
        finally:
            self._turn.release()

    def take(self) -> Shipment:
        """Wait until there is something to send, and give it. The last one may be empty, or one after `interrupt`."""
        self._is_sending = False
        while True:
            with self._turn:
                shipment = self._gathering.gather(is_patient=False)
                if shipment or shipment.is_last or self._is_interrupted:
                    self._is_sending, self._is_interrupted = True, False
                    return shipment
            self._sleep()

    def _sleep(self) -> None:
        """Wait until there is something new, or what waits for others has waited long enough."""
        gathering = self._gathering
        with self._turn:
            self._is_timed = gathering.is_recent()
            self.is_asleep = True
            # Whoever gives us something to do looks at this flag afterwards, and we at what there is after setting it.
            is_idle = not (gathering.new or self._is_interrupted or gathering.is_any_due())
        if is_idle:
            with suppress(Empty):
                self._wakes.get(timeout=gathering.time_left_s() if self._is_timed else None)
        self.is_asleep = False
