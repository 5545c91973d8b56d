"""A model as its device has it. The device alone changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferwire_server.core.batching import Batching, rows_run
from inferwire_server.core.job import Work
from inferwire_server.core.tally import Tally
from inferwire_server.engine.model_slots import ModelSlots


@dataclass(slots=True)
class PlacedModel:
    """The slots that a model has now, how its jobs run together, and what they are counted in."""

    slots: ModelSlots
    batching: Batching | None
    tally: Tally

    def count_run(self, works: Sequence[Work], seconds: float) -> None:
        """Count an inference by its rows: those of a batch, or one for each execution of a model that has none."""
        if self.batching is None:
            self.tally.end_runs(1, seconds, sum([work.executions for work in works]))
        else:
            self.tally.end_runs(rows_run(works, self.batching), seconds)
