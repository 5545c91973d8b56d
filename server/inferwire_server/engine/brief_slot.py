"""The slot for inferences so short that handing them to a thread would take longer: they run on the event loop itself.

Owns how long inferences of each shape take in it, and so which of them may run on the loop. An unknown shape is tried
on a thread a few times first, because the runtime has to prepare for a new shape and caches are cold. Holds no jobs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from time import thread_time

from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.states import StateAccess
from inferwire_server.core.tensors import Shapes, Tensor
from inferwire_server.engine.backend import Slot

BRIEF_S = 0.0004
"""The longest that an inference may take on the loop.

Handing an inference to a thread and its result back costs the server 0.2 to 0.4 ms, most of it because caches are cold
then. Where other processes slow the machine down, both the inference and the hand-over slow down.
"""

MOST_SHAPES = 256
"""For how many shapes times are kept: the most recently used ones."""

TRIALS = 3
"""How many inferences of a shape run on a thread before one may run on the loop. The first does not count."""

PROMISING_S = 0.0008
"""The longest that the fastest trial of a shape may take, so that it may run on the loop.

It is more than `BRIEF_S`, because a thread that was idle is several times slower than the loop is later.
"""

STRIKES = 64
"""After so many inferences of a shape in a row that took too long on the loop, the next ones run on threads.

A few may take too long: the first, because the runtime prepares for each thread, and any while the machine is busy.
"""

ENDURABLE_S = 0.01
"""If one inference takes longer than this on the loop, which callers notice, the next of its shape run on threads."""

SENT_AWAY = 1000
"""How many inferences of a shape that is too slow for the loop run on threads before the shape is tried again."""


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
"""Module-level names because every job compares with them: Python 3.11 is slow to look up an enumeration's member."""


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
        has_failed: Whether the latest inference in it failed. The next one may then have to make the runtime's graph
            anew, which takes too long for the loop. So the next one is a trial, whatever its shape, and a run that has
            begun on the loop moves to a thread.
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
        """Say where an inference of these shapes is to run. The caller has to call `end` when it has ended."""
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
        """Record that what `begin` sent there has ended."""
        if where is LOOP:
            self._on_loop -= 1
        elif where is TRIAL:
            self._is_tried = False

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run an inference and learn how long it takes.

        If it fails, its shape is forgotten and so tried on a thread next: failing may take long.
        """
        shapes = tuple([tensor.shape for tensor in inputs])
        began = self._clock()
        try:
            given = self._slot.run(inputs, outputs, transforms)
        except Exception:
            self._paces.pop(shapes, None)
            self.has_failed = True
            raise
        if self.has_failed:
            # This one may have made the runtime's graph anew: how long it took says nothing about its shape.
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
