"""The slot for inferences that are shorter than handing them to a thread: those run on the loop itself.

Owns how long inferences of each shape take in it, and so which may run there. A shape that it does not know is tried
on a thread first, a few times: a runtime makes ready for it, and caches are cold. Holds no jobs.
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
"""Those of an inference's inputs, in the model's order."""

BRIEF_S = 0.0004
"""What an inference may take on the loop. Handing one to a thread and its result back takes the server 0.2 to 0.4 ms,
most of it for finding its caches cold; where neighbours slow a machine down, inferences slow down with it."""

MOST_SHAPES = 256
"""Shapes whose times are known; of more, those used last."""

TRIALS = 3
"""Inferences of a shape on a thread before one runs on the loop. The shortest counts; the very first does not."""

PROMISING_S = 0.0008
"""What the shortest may take: a thread that was idle computes several times as long as the loop does later."""

STRIKES = 64
"""Inferences of a shape that take too long on the loop in a row, after which the next run on threads. Some may: the
first, because a runtime makes ready for each thread as well, and any while the machine is busy with other things."""

ENDURABLE_S = 0.01
"""What takes longer than this on the loop is the last of its shape there for a while: callers notice."""

SENT_AWAY = 1000
"""How many then run on threads before the shape is tried once more."""


class Place(Enum):
    """Where an inference is to run.

    Attributes:
        LOOP: In the quick slot, on the loop.
        TRIAL: In the quick slot, on a thread: how long it takes is to be found out.
        THREAD: In one of the model's slots, on a thread.
    """

    LOOP = auto()
    TRIAL = auto()
    THREAD = auto()


LOOP, TRIAL, THREAD = Place
"""What is asked for with every job: Python 3.11 takes long to find a member in its enumeration."""


@dataclass(slots=True)
class _Pace:
    """How long inferences of one shape take.

    Attributes:
        took_s: The shortest of the trials.
        strikes: How many of the latest took too long.
        sent_away: How many did not run on the loop for that.
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
        """Take note of how long the latest took."""
        if self.is_known:
            self.strikes = 0 if took_s <= BRIEF_S else STRIKES if took_s > ENDURABLE_S else self.strikes + 1
        elif self.runs:
            self.took_s = min(self.took_s, took_s)
        self.runs += 1
        self.is_known = self.runs >= TRIALS
        self.is_brief = self.is_known and self.took_s <= PROMISING_S and self.strikes < STRIKES


class QuickSlot:
    """A slot that computes on the thread that calls it. Used by the loop, or by one thread in a trial; never by both.

    `clock` gives the calling thread's own time, so that waiting for anything does not count.
    """

    def __init__(self, slot: Slot, clock: Callable[[], float] = thread_time) -> None:
        self._slot = slot
        self._clock = clock
        self._paces: OrderedDict[Shapes, _Pace] = OrderedDict()
        self._on_loop = 0
        self._is_tried = False

    def __repr__(self) -> str:
        brief = sum(pace.is_brief for pace in self._paces.values())
        return f"<QuickSlot: {brief}/{len(self._paces)} shapes are brief>"

    def begin(self, shapes: Shapes) -> Place:
        """Say where an inference of these shapes is to run; `end` says of that place that it is free again."""
        pace = self._paces.get(shapes)
        if self._is_tried:
            return THREAD
        if pace is not None and pace.is_brief:
            self._on_loop += 1
            return LOOP
        if pace is not None and pace.is_known:
            pace.sent_away += 1
            if pace.sent_away < SENT_AWAY:
                return THREAD
            del self._paces[shapes]
        if self._on_loop:
            return THREAD
        self._is_tried = True
        return TRIAL

    def end(self, place: Place) -> None:
        """Take note that what began there has ended."""
        if place is LOOP:
            self._on_loop -= 1
        elif place is TRIAL:
            self._is_tried = False

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run an inference and learn how long it takes; where it fails, forget its shape: failing may take long."""
        shapes = tuple([tensor.shape for tensor in inputs])
        began = self._clock()
        try:
            given = self._slot.run(inputs, outputs, transforms)
        except Exception:
            self._paces.pop(shapes, None)
            raise
        self._learn(shapes, self._clock() - began)
        return given

    def try_out(self, inputs: Sequence[Tensor], outputs: Sequence[int]) -> None:
        """Get to know a shape before anybody waits for it."""
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
