"""The slot for inferences so short that handing them to a thread would take longer: they run on the loop itself.

Owns how long inferences of each shape take in it, and so which of them may run on the loop. An unknown shape is tried
on a thread first, a few times, as the runtime prepares for a new shape and caches are cold. Holds no jobs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from time import thread_time
from typing import TypeAlias

from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.states import StateAccess
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
"""The shapes of an inference's inputs, in the model's order."""

BRIEF_S = 0.0004
"""The longest that an inference may take on the loop.

Handing one to a thread and its result back costs the server 0.2 to 0.4 ms, most of it as caches are cold then. Where
neighbours slow a machine down, both slow down.
"""

MOST_SHAPES = 256
"""Of how many shapes the times are kept: those used last."""

TRIALS = 3
"""How many inferences of a shape run on a thread before one may run on the loop. The first does not count."""

PROMISING_S = 0.0008
"""The longest that the shortest trial may take: a thread that was idle is several times slower than the loop later."""

STRIKES = 64
"""After how many inferences in a row that took too long on the loop the next of their shape run on threads.

Some may take too long: the first, as the runtime prepares for each thread, and any while the machine is busy.
"""

ENDURABLE_S = 0.01
"""An inference that takes longer than this on the loop is the last of its shape there for a while: callers notice."""

SENT_AWAY = 1000
"""How many inferences of such a shape then run on threads before it is tried again."""


class Where(Enum):
    """Where an inference is to run.

    Attributes:
        LOOP: In the slot for brief inferences, on the loop.
        TRIAL: In the slot for brief inferences, on a thread, to find out how long it takes.
        THREAD: In one of the model's slots, on a thread.
    """

    LOOP = auto()
    TRIAL = auto()
    THREAD = auto()


LOOP, TRIAL, THREAD = Where
"""Names of their own, as every job compares with them: Python 3.11 is slow to look up a member of an enumeration."""


@dataclass(slots=True)
class _Pace:
    """How long inferences of one shape take.

    Attributes:
        took_s: The shortest of the trials.
        strikes: How many of the latest took too long, in a row.
        sent_away: How many were sent to threads because of that.
        is_known: Whether enough of them have run.
        is_brief: Whether they may run on the loop.
    """

    runs: int = 0
    took_s: float = inf
    strikes: int = 0
    sent_away: int = 0
    is_known: bool = False
    is_brief: bool = False

    def learn(self, took_s: float) -> None:
        """Learn from how long the latest inference took."""
        if self.is_known:
            self.strikes = 0 if took_s <= BRIEF_S else STRIKES if took_s > ENDURABLE_S else self.strikes + 1
        elif self.runs:
            self.took_s = min(self.took_s, took_s)
        self.runs += 1
        self.is_known = self.runs >= TRIALS
        self.is_brief = self.is_known and self.took_s <= PROMISING_S and self.strikes < STRIKES


class BriefSlot:
    """A slot that computes on the thread that calls it. Used by the loop, or by one thread in a trial; never by both.

    `clock` gives the calling thread's own time, so that waiting for anything does not count.

    Attributes:
        has_failed: Whether the latest inference in it failed. The next may then have to make a graph of the runtime
            anew, which is not for the loop: it is a trial, whatever its shape, and what has begun on the loop leaves.
    """

    def __init__(self, slot: Slot, clock: Callable[[], float] = thread_time) -> None:
        self._slot = slot
        self._clock = clock
        self._paces: OrderedDict[Shapes, _Pace] = OrderedDict()
        self._on_loop = 0
        self._is_tried = False
        self.has_failed = False

    def __repr__(self) -> str:
        brief = sum(pace.is_brief for pace in self._paces.values())
        return f"<BriefSlot: {brief}/{len(self._paces)} shapes are brief>"

    def begin(self, shapes: Shapes) -> Where:
        """Say where an inference of these shapes is to run; `end` is to be told of it when it has ended."""
        pace = self._paces.get(shapes)
        if self._is_tried:
            return THREAD
        if pace is not None and pace.is_brief and not self.has_failed:
            self._on_loop += 1
            return LOOP
        if pace is not None and pace.is_known and not pace.is_brief:
            pace.sent_away += 1
            if pace.sent_away < SENT_AWAY:
                return THREAD
            del self._paces[shapes]
        if self._on_loop:
            return THREAD
        self._is_tried = True
        return TRIAL

    def end(self, where: Where) -> None:
        """Take note that what began there has ended."""
        if where is LOOP:
            self._on_loop -= 1
        elif where is TRIAL:
            self._is_tried = False

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run an inference and learn how long it takes. If it fails, its shape is forgotten: failing may take long."""
        shapes = tuple([tensor.shape for tensor in inputs])
        began = self._clock()
        try:
            given = self._slot.run(inputs, outputs, transforms)
        except Exception:
            self._paces.pop(shapes, None)
            self.has_failed = True
            raise
        if self.has_failed:
            # It may have made the graph anew, which is no part of what one of its shape takes.
            self.has_failed = False
        else:
            self._learn(shapes, self._clock() - began)
        return given

    def try_out(self, inputs: Sequence[Tensor], outputs: Sequence[int]) -> None:
        """Try a shape as often as it takes to know it, before any caller waits for it."""
        for _ in range(TRIALS):
            self.run(inputs, outputs)

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset states."""
        return self._slot.access(states)

    def cancel(self) -> None:
        """Stop the inference that runs, if the device can."""
        self._slot.cancel()

    def profile(self) -> tuple[LayerTime, ...]:
        """Give what each layer took in the last run."""
        return self._slot.profile()

    def _learn(self, shapes: Shapes, took_s: float) -> None:
        pace = self._paces.get(shapes)
        if pace is None:
            pace = self._paces[shapes] = _Pace()
            if len(self._paces) > MOST_SHAPES:
                self._paces.popitem(last=False)
        self._paces.move_to_end(shapes)
        pace.learn(took_s)
