"""An execution as a stream sees it, and what the stream counts of those that are alike.

Knows neither messages nor the wire, and nothing of how often an execution may be sent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from inferwire.errors import InferwireError
from inferwire.transport.executions import Deliver, Outcome, WireBytes

_LOG = logging.getLogger(__name__)

_SMOOTHING = 1 / 8
"""How much the latest answer counts in what is known of a flow."""

_NEGLIGIBLE = 1 / 4
"""What part of an inference's time its message may take before fewer messages are to be had."""

BESIDE_BYTES = 32
"""What an execution counts in a message beside its inputs' bytes: a server takes only so many, however small."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class EncodedHeader:
    """An execution as a message without its ids. Compared by identity.

    Attributes:
        most_stacked: How many executions of this header may travel as one; 1 for each by itself.
        sends: The positions of those inputs whose bytes are sent; None for all.
    """

    data: bytes
    most_stacked: int = 1
    sends: tuple[int, ...] | None = None

    def sent_of(self, inputs: Sequence[WireBytes]) -> Sequence[WireBytes]:
        """Give those inputs of an execution whose bytes are sent."""
        return inputs if self.sends is None else [inputs[at] for at in self.sends]


@dataclass(slots=True, eq=False)
class Flow:
    """The executions of one header that are under way, where they may be stacked.

    Whoever has the turn to send changes `sent` and `latest`, the reading thread all else: neither needs its own lock.

    Attributes:
        sent: How many were sent, but for those that were withdrawn later.
        latest: How many were sent together last.
        answered: How many of these were answered.
        spared_ms: By how much messages took longer of late than is negligible: what is to be gained by fewer of them.
    """

    sent: int = 0
    latest: int = 0
    answered: int = 0
    spared_ms: float = 0.0

    def learn(self, count: int, wire_ms: float, inference_ms: float) -> None:
        """Count answers that came together, and learn from how long their message and their inference took."""
        self.answered += count
        self.spared_ms += (wire_ms - inference_ms * _NEGLIGIBLE - self.spared_ms) * _SMOOTHING

    @property
    def worthwhile(self) -> int:
        """How many that wait are worth a message. The server is not to wait for those that keep its device busy."""
        return max(self.sent - self.answered, 1) if self.spared_ms > 0 else 1

    @property
    def expected(self) -> int:
        """How many are worth a message to whoever goes on submitting: where all are back, as many as went last."""
        return max(self.sent - self.answered or self.latest, 1) if self.spared_ms > 0 else 1

    def share_of(self, waiting: int) -> int:
        """How many of those that wait are to go, once they are worth a message: half of what is in flight then.

        If all went, they would come back together, and this side and the server would take turns.
        """
        return min(waiting, (waiting + self.sent - self.answered + 1) // 2) if self.spared_ms > 0 else waiting


class StreamExecution:
    """An execution that may be sent on a stream, and on another one if that is lost.

    Attributes:
        inputs: The bytes of its inputs.
        deliver: What is told of its outcome.
        id: Its number on the stream. This and all that follows is of its latest sending.
        encoded: Its header there.
        byte_size: How many bytes its inputs have.
        flow: What it is counted in once it is sent, if it may be stacked.
        sent_at: When that was.
    """

    # One is made for every inference: what is set later is the class's until then.
    id = 0
    encoded = EncodedHeader(b"")
    byte_size = 0
    flow: Flow | None = None
    sent_at = 0.0

    def __init__(self, inputs: Sequence[WireBytes], deliver: Deliver) -> None:
        self.inputs = inputs
        self.deliver = deliver

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self.byte_size} bytes>"

    def fail(self, outcome: Outcome) -> None:
        """Deliver an error. Never raises: others wait to hear of theirs."""
        try:
            self.deliver(outcome, ())
        except Exception:  # noqa: BLE001 - nobody is left who could be told
            _LOG.exception("%r could not be told that it failed: %s", self, outcome.error)


def not_taken(raised: Exception) -> Outcome:
    """Make an outcome of what `deliver` raised."""
    return Outcome(error=InferwireError(f"the answer came and could not be taken: {raised!r}"))


def count_answers(executions: Sequence[StreamExecution], outcome: Outcome) -> None:
    """Count the answers to executions that ran together."""
    if executions and executions[0].flow is not None:
        wire_ms = (outcome.came_at - executions[0].sent_at) * 1000 - outcome.timings.server_ms
        executions[0].flow.learn(len(executions), wire_ms, outcome.timings.inference_ms)
