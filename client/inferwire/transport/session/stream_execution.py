"""An execution as a stream sees it, and what the stream counts of executions that have one header.

Knows no message format and no carrier, and nothing of how often an execution may be sent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from inferwire.errors import InferwireError
from inferwire.transport.executions import Deliver, Outcome, WireBytes

_LOG = logging.getLogger(__name__)

_SMOOTHING = 1 / 8
"""The weight of the latest answer in a flow's moving average."""

_NEGLIGIBLE = 1 / 4
"""Which fraction of an inference's time its message may take before fewer messages are worth waiting for."""

BESIDE_BYTES = 32
"""What an execution counts in a message beside its inputs' bytes: a server takes only so many, however small."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class EncodedHeader:
    """An execution's protobuf message without the ids. Compared by identity.

    Attributes:
        most_stacked: How many executions of this header may travel stacked as one; 1 if each travels by itself.
        sends: The positions of the inputs whose bytes are sent; None for all.
    """

    data: bytes
    most_stacked: int = 1
    sends: tuple[int, ...] | None = None

    def sent_of(self, inputs: Sequence[WireBytes]) -> Sequence[WireBytes]:
        """Give the inputs of an execution whose bytes are sent."""
        return inputs if self.sends is None else [inputs[at] for at in self.sends]


@dataclass(slots=True, eq=False)
class Flow:
    """The counts of one header's executions, if they may be stacked.

    Needs no lock of its own: only the thread that has the turn to send writes `sent` and `latest`, and only the thread
    that receives writes the others.

    Attributes:
        sent: How many were sent, without those that were withdrawn later.
        latest: How many were sent together last.
        answered: How many were answered, so that `sent - answered` are in flight.
        spared_ms: By how much a message has lately taken longer than is negligible: what each message less saves.
    """

    sent: int = 0
    latest: int = 0
    answered: int = 0
    spared_ms: float = 0.0

    def learn(self, count: int, wire_ms: float, inference_ms: float) -> None:
        """Count answers that came together, and learn from the time that their message and their inference took."""
        self.answered += count
        self.spared_ms += (wire_ms - inference_ms * _NEGLIGIBLE - self.spared_ms) * _SMOOTHING

    @property
    def worthwhile(self) -> int:
        """How many waiting executions are worth a message: as many as are in flight, or 1 if no time is saved by that.

        No more, so that the device need not wait for them once it has run those in flight.
        """
        return max(self.sent - self.answered, 1) if self.spared_ms > 0 else 1

    @property
    def expected(self) -> int:
        """The same for a thread that goes on submitting: if none is in flight, as many as were sent last."""
        return max(self.sent - self.answered or self.latest, 1) if self.spared_ms > 0 else 1

    def share_of(self, waiting: int) -> int:
        """How many waiting executions to send once they are worth a message: half of those that wait or are in flight.

        If all went, their answers would come back together, and the client and the server would take turns.
        """
        return min(waiting, (waiting + self.sent - self.answered + 1) // 2) if self.spared_ms > 0 else waiting


class StreamExecution:
    """An execution that is sent on a stream, and perhaps on another one if that is lost.

    Attributes:
        inputs: The bytes of its inputs.
        deliver: Called with its outcome.
        is_awaited: Whether nobody wants its outcome but threads that wait for it, with `SessionStream.attend`.
        id: Its number on the stream. This and the attributes below belong to its latest sending.
        encoded: Its header on that stream.
        byte_size: How many bytes of its inputs are sent.
        sent_as: The number that it was sent under, if it may not be stacked.
        flow: Where it is counted once it is sent, if it may be stacked.
        sent_at: When it was sent and counted there, by the clock of `Gathering`.
    """

    # Each inference makes one, so attributes that are set later have their first values on the class.
    is_awaited = False
    id = 0
    encoded = EncodedHeader(b"")
    byte_size = 0
    sent_as = 0
    flow: Flow | None = None
    sent_at = 0.0

    def __init__(self, inputs: Sequence[WireBytes], deliver: Deliver) -> None:
        self.inputs = inputs
        self.deliver = deliver

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self.byte_size} bytes>"

    def fail(self, outcome: Outcome) -> None:
        """Deliver an error. Never raises, because the caller has the errors of other executions to deliver."""
        try:
            self.deliver(outcome, ())
        except Exception:  # noqa: BLE001 - there is nothing left to tell it to but the log
            _LOG.exception("%r could not be told that it failed: %s", self, outcome.error)


def not_taken(raised: Exception) -> Outcome:
    """Make an outcome of the exception that `deliver` raised."""
    return Outcome(error=InferwireError(f"the answer came and could not be taken: {raised!r}"))


def count_answers(executions: Sequence[StreamExecution], outcome: Outcome) -> None:
    """Count the answers to executions that ran together."""
    if executions and executions[0].flow is not None:
        wire_ms = (outcome.came_at - executions[0].sent_at) * 1000 - outcome.timings.server_ms
        executions[0].flow.learn(len(executions), wire_ms, outcome.timings.inference_ms)
