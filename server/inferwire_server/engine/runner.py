"""Who takes the steps of a slot's run: the event loop, in turns with its other callbacks, or a thread.

It does not know which jobs the run has, or what becomes of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import structlog

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.lane import ModelKey
from inferwire_server.engine.brief_slot import THREAD, Where
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.slot_runs import SlotRun
from inferwire_server.engine.thread_pool import NoThread, ThreadPool
from inferwire_server.errors import ServingError

log = structlog.stdlib.get_logger()

TURN_S = 0.0005
"""How long the inferences of one stack may hold the event loop before its other callbacks have a turn."""

_ENDED = object()
"""What comes after the last step of a run."""


@dataclass(eq=False, slots=True)
class Running:
    """What a slot of a model is running, and where.

    Attributes:
        steps: The steps of the run that are still to be taken.
        began_at: When it began; later by as long as it has waited for the loop.
    """

    model: ModelKey
    slots: ModelSlots
    number: int
    where: Where
    run: SlotRun
    steps: Iterator[None]
    began_at: float


class Runner:
    """Takes the steps of a device's runs. Lives on the event loop, where each run ends with a call of `report`.

    `take_place` is called with the model and the slot's number of each run that is not brief, or not any more: it takes
    one of the device's places.
    """

    def __init__(
        self,
        device: str,
        clock: Callable[[], float],
        take_place: Callable[[ModelKey, int], None],
        report: Callable[[Running], None],
    ) -> None:
        self._device = device
        self._clock = clock
        self._take_place = take_place
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPool(f"slot-{device}")

    def __repr__(self) -> str:
        return f"<Runner {self._device}: {self._threads!r}>"

    def close(self) -> None:
        """End the threads. All runs must have ended before."""
        self._threads.close()

    def go_on(self, running: Running, waits_since: float) -> None:
        """Take steps on the loop, and yield to its other callbacks after each `TURN_S`."""
        now = self._clock()
        running.began_at += now - waits_since
        until = now + TURN_S
        slots, steps = running.slots, running.steps
        while slots.may_go_on():
            if next(steps, _ENDED) is _ENDED:
                self._report(running)
                return
            if (now := self._clock()) >= until:
                self._loop.call_soon(self.go_on, running, now)
                return
        self._leave_loop(running)

    def hand_over(self, running: Running) -> None:
        """Have a thread take the steps that are left.

        If there is no thread for it, its jobs fail and its slot is free again.
        """
        self._take_place(running.model, running.number)
        try:
            self._threads.run(partial(self._run_on_thread, running))
        except NoThread as error:
            log.error("an inference has no thread", device=self._device, model=str(running.model), reason=str(error))
            reason = f"no thread could be started for the inference: {error}"
            running.run.fail(ServingError(Code.INTERNAL, reason))
            # In a later turn of the loop: `submit` is to return before `on_end` is called.
            self._loop.call_soon(self._report, running)

    def _run_on_thread(self, running: Running) -> None:
        for _ in running.steps:
            pass
        self._loop.call_soon_threadsafe(self._report_from_thread, running)

    def _report_from_thread(self, running: Running) -> None:
        self._threads.done()
        self._report(running)

    def _leave_loop(self, running: Running) -> None:
        """Have a thread take the remaining steps, in the slot that they were scheduled for."""
        slots = running.slots
        slots.end(running.where)
        running.run.go_on_in(slots[running.number])
        running.where = THREAD
        self.hand_over(running)
