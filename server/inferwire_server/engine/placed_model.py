"""What a device knows of a model that is placed on it. The device alone changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferwire_server.core.scheduling.batching import Batching, rows_run
from inferwire_server.core.scheduling.job import Work
from inferwire_server.core.scheduling.rows import count_rows
from inferwire_server.core.scheduling.tally import Tally
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.opening import Opened
from inferwire_server.engine.slot_runs import SlotRun
from inferwire_server.errors import bug


@dataclass(slots=True)
class PlacedModel:
    """What a model runs in now, how its jobs run together, and the tally that counts them.

    Attributes:
        opened: What it runs in; None while it is unloaded until its next job.
        is_on_loop: Whether its last run was on the loop, where one inference runs at a time however many slots are
            idle.
    """

    opened: Opened | None
    batching: Batching | None
    tally: Tally
    is_on_loop: bool = False

    @property
    def slots(self) -> ModelSlots:
        """The slots that it has now."""
        if self.opened is None:
            raise bug("a slot was asked of a model that is unloaded")
        return self.opened.slots

    def gathers(self, work: Work) -> bool:
        """Whether work should wait for other jobs of the same turn of the loop, to run with them as one inference."""
        return self.is_on_loop and self.batching is not None and work.executions < self.batching.most_stacked(work)

    def count_run(self, run: SlotRun, seconds: float) -> None:
        """Count what a slot ran by its rows: those of the batch, or without batching one for each execution."""
        given = run.given
        if not given:
            return
        if self.batching is None:
            self.tally.end_runs(1, seconds, sum([work.executions for work in given]))
        elif run.fell_apart:
            self._count_apart(given, seconds)
        else:
            self.tally.end_runs(rows_run(given, self.batching), seconds)

    def _count_apart(self, given: Sequence[Work], seconds: float) -> None:
        """Count each execution as an inference. How long each took is not known: they share the time equally."""
        executions = sum(work.executions for work in given)
        for work in given:
            share_s = seconds * work.executions / executions
            self.tally.end_runs(count_rows(work) // work.executions, share_s, work.executions)
