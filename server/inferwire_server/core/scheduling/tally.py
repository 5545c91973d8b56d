"""What has happened to the jobs of one model on one device, as numbers that only grow.

All counting is done here: the metrics that operators scrape and the protocol's statistics are both read from tallies.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from inferwire_server.core.scheduling.job import FINISHED, INVALID, Job, JobState
from inferwire_server.core.scheduling.lane import ModelKey
from inferwire_server.core.scheduling.stacks import count_ends

SECONDS_BUCKETS = (
    *(1e-4, 2.5e-4, 5e-4, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0),
)
"""The bounds between which times are counted, in seconds: from a tiny model's inference to the wait in a long queue."""

BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""The bounds between which inferences are counted by how many executions each of them ran."""

REFUSED = "refused"
"""How a job that was not admitted is counted; others are counted by `outcome_of`."""

OUTCOMES = (*(state.value for state in JobState if state.is_terminal), INVALID, REFUSED)
"""The ways in which jobs end."""


class Histogram:
    """How many values lie between bounds, and their sum. A value that equals a bound counts as below it."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)


@dataclass(slots=True)
class Durations:
    """How many there were of something that takes time, and how long all of them took."""

    count: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Tally:
    """One model's numbers on one device. A stack counts as many jobs as it has executions.

    Attributes:
        submitted: Jobs that asked to be admitted.
        outcomes: Jobs by how they ended.
        queue: The time that jobs waited for their slot.
        inference: The time of finished jobs in a slot.
        total: The time of finished jobs from admission to their end.
        wire: The time that answered calls took besides that of their jobs.
        batch_sizes: How many executions each inference ran.
        runs: The inferences that gave outputs, by their rows.
        failed_s: The time of jobs that ended otherwise than finished.
        last_finished_at: When the last job finished, by the clock of jobs; None where none has.
    """

    submitted: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    queue: Histogram = field(default_factory=partial(Histogram, SECONDS_BUCKETS))
    inference: Histogram = field(default_factory=partial(Histogram, SECONDS_BUCKETS))
    total: Histogram = field(default_factory=partial(Histogram, SECONDS_BUCKETS))
    wire: Histogram = field(default_factory=partial(Histogram, SECONDS_BUCKETS))
    batch_sizes: Histogram = field(default_factory=partial(Histogram, BATCH_BUCKETS))
    runs: dict[int, Durations] = field(default_factory=dict[int, Durations])
    failed_s: float = 0.0
    last_finished_at: float | None = None

    def submit(self, executions: int) -> None:
        """Count a job of so many executions that asks to be admitted. It will be refused, or end."""
        self.submitted += executions

    def refuse(self, executions: int) -> None:
        """Count a job of so many executions that was not admitted."""
        self.outcomes[REFUSED] += executions

    def end(self, job: Job) -> None:
        """Count the executions of a job that has ended, in whatever way."""
        timings, counts, executions = job.timings, count_ends(job), job.work.executions
        finished = counts.get(FINISHED, 0)
        for outcome, count in counts.items():
            self.outcomes[outcome] += count
        if job.started_at is not None:
            self.queue.observe(timings.queue_s, executions)
        if finished:
            self.inference.observe(timings.inference_s, finished)
            self.total.observe(timings.total_s, finished)
            self.last_finished_at = job.ended_at
        self.failed_s += timings.total_s * (executions - finished)

    def answer(self, wire_s: float, executions: int = 1) -> None:
        """Count so many answered executions, and the time that reading their request and writing the answer took."""
        self.wire.observe(wire_s, executions)

    def begin_run(self, executions: int) -> None:
        """Count an inference that begins, under the number of executions it runs."""
        self.batch_sizes.observe(executions)

    def end_runs(self, rows: int, seconds: float, times: int = 1) -> None:
        """Count inferences of so many rows each, and how long all of them took."""
        runs = self.runs.get(rows)
        if runs is None:
            runs = self.runs[rows] = Durations()
        runs.count += times
        runs.seconds += seconds


TallyOf: TypeAlias = Callable[[str, ModelKey], Tally]
"""Gives the tally of a model on the device of that name. Models that are counted together have the same tally."""
