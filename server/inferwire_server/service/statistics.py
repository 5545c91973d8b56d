"""How often the served models have run, and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from inferwire_server.core.scheduling.job import JobState
from inferwire_server.core.scheduling.tally import Durations, Histogram, Tally
from inferwire_server.repository.catalogue import Catalogue
from inferwire_server.tallies import Tallies


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """What was counted of one version since the server has started, reloads included.

    A version that has gone is forgotten after ten to twenty minutes. If it comes back after that, it is counted anew.

    Attributes:
        last_s: When the last inference ended, in seconds since the epoch; None where none has.
        success: Inferences that callers got, and their time from admission to their end.
        fail: Inferences that they did not get: refused, cancelled and expired ones among them.
        queue: The time that inferences waited for their slot.
        compute: The time in their slot of the inferences that callers got.
        runs: The inferences that slots ran, batches as one, by their rows.
    """

    name: str
    version: str
    last_s: float | None
    success: Durations
    fail: Durations
    queue: Durations
    compute: Durations
    runs: dict[int, Durations]


class StatisticsService:
    """Reads what `tallies` counted. `epoch_of` turns a time of the clock of jobs into seconds since the epoch."""

    def __init__(self, catalogue: Catalogue, tallies: Tallies, epoch_of: Callable[[float], float]) -> None:
        self._catalogue = catalogue
        self._tallies = tallies
        self._epoch_of = epoch_of

    def __repr__(self) -> str:
        return f"<StatisticsService: {len(self._catalogue.names)} models>"

    def read(self, name: str = "", version: str = "") -> list[ModelStatistics]:
        """Give the statistics of the versions that take jobs: of all models, or of those that are named.

        Raises:
            ServingError: INVALID_INPUT for a version that is no number, MODEL_NOT_FOUND for one that is not known.
        """
        if version:
            served = [self._catalogue.find(name, version)]
        else:
            names = [name] if name else sorted(self._catalogue.names)
            served = [each for name in names for each in self._catalogue.of(name)]
        return [self._of(each.name, each.version) for each in served if each.takes_jobs]

    def _of(self, name: str, version: str) -> ModelStatistics:
        tallies = self._tallies.of_version(name, version)
        last = max((tally.last_finished_at for tally in tallies if tally.last_finished_at is not None), default=None)
        return ModelStatistics(
            name,
            version,
            None if last is None else self._epoch_of(last),
            success=_sum(_durations(tally.total) for tally in tallies),
            fail=_sum(Durations(_failures(tally), tally.failed_s) for tally in tallies),
            queue=_sum(_durations(tally.queue) for tally in tallies),
            compute=_sum(_durations(tally.inference) for tally in tallies),
            runs={
                rows: _sum(tally.runs.get(rows, Durations()) for tally in tallies)
                for rows in sorted({rows for tally in tallies for rows in tally.runs})
            },
        )


def _failures(tally: Tally) -> int:
    return tally.outcomes.total() - tally.outcomes[JobState.FINISHED]


def _durations(histogram: Histogram) -> Durations:
    return Durations(histogram.count, histogram.total)


def _sum(parts: Iterable[Durations]) -> Durations:
    parts = list(parts)
    return Durations(sum(part.count for part in parts), sum(part.seconds for part in parts))
