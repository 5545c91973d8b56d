"""The metrics of what has become of jobs, and how long that took: what `tallies` count.

Every submitted job ends in one outcome, of which refused is one, or still waits or runs. A stack counts as as many jobs
as it has executions; executions that were cancelled end with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

from inferwire_server.core.scheduling.tally import OUTCOMES, Histogram, Tally
from inferwire_server.tallies import Counted, Tallies

_HISTOGRAMS: tuple[tuple[str, str, Callable[[Tally], Histogram]], ...] = (
    ("inferwire_queue_seconds", "Time from admission to a slot.", lambda tally: tally.queue),
    ("inferwire_inference_seconds", "Time of finished jobs in a slot.", lambda tally: tally.inference),
    ("inferwire_total_seconds", "Time of finished jobs from admission to their end.", lambda tally: tally.total),
    (
        "inferwire_wire_seconds",
        "Time of answered calls besides their jobs: reading requests, writing answers.",
        lambda tally: tally.wire,
    ),
    ("inferwire_batch_jobs", "Jobs that one inference ran.", lambda tally: tally.batch_sizes),
)


class _Values(NamedTuple):
    """What a histogram has counted."""

    bounds: Sequence[float]
    counts: tuple[int, ...]
    total: float


class _Counts(NamedTuple):
    """What of a tally becomes metrics. The histograms are those of `_HISTOGRAMS`."""

    labels: Counted
    submitted: int
    outcomes: Mapping[str, int]
    busy_s: float
    histograms: tuple[_Values, ...]


def of_tallies(tallies: Tallies) -> Iterable[Metric]:
    """Take what was counted, for its counters and histograms."""
    return _counted(
        [
            _Counts(
                labels,
                tally.submitted,
                dict(tally.outcomes),
                sum(runs.seconds for runs in tally.runs.values()),
                tuple([_values(histogram_of(tally)) for _, _, histogram_of in _HISTOGRAMS]),
            )
            for labels, tally in tallies.items()
        ]
    )


def _values(histogram: Histogram) -> _Values:
    return _Values(histogram.bounds, tuple(histogram.counts), histogram.total)


def _counted(taken: Sequence[_Counts]) -> Iterator[Metric]:
    submitted = CounterMetricFamily(
        "inferwire_submitted_jobs", "Jobs that asked for a place in a queue.", labels=Counted._fields
    )
    ended = CounterMetricFamily("inferwire_jobs", "Jobs by how they ended.", labels=(*Counted._fields, "outcome"))
    busy = CounterMetricFamily(
        "inferwire_busy_slot_seconds", "Time in which slots ran inferences that gave something.", labels=Counted._fields
    )
    for counts in taken:
        submitted.add_metric(counts.labels, counts.submitted)
        for outcome in OUTCOMES:
            ended.add_metric((*counts.labels, outcome), counts.outcomes.get(outcome, 0))
        busy.add_metric(counts.labels, counts.busy_s)
    yield from (submitted, ended, busy)
    for position, (name, text, _) in enumerate(_HISTOGRAMS):
        family = HistogramMetricFamily(name, text, labels=Counted._fields)
        for counts in taken:
            values = counts.histograms[position]
            family.add_metric(counts.labels, _buckets(values), values.total)
        yield family


def _buckets(values: _Values) -> list[tuple[str, float]]:
    """Give how many values lie below each bound."""
    bounds = [*(str(float(bound)) for bound in values.bounds), "+Inf"]
    return list(zip(bounds, accumulate(values.counts), strict=True))
