"""What operators watch, in Prometheus' text format."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from inferwire_server.core.ledger import Kept
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.scheduling.tally import OUTCOMES, Histogram, Tally
from inferwire_server.engine.device import Device
from inferwire_server.repository.catalogue import Served
from inferwire_server.tallies import Tallies, labels_of

_LABELS = ("model", "version", "device")

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


class Metrics:
    """Reads its sources when it is asked: on the loop, and so all at one moment. They are the functions `of_...` below.

    Every submitted job ends in one outcome, refused among them, or still waits or runs. A stack counts as so many
    jobs; those of its executions that were cancelled end with the others.
    """

    def __init__(self, *sources: Callable[[], Iterable[Metric]]) -> None:
        self._registry = CollectorRegistry()
        for source in sources:
            self.add(source)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def add(self, source: Callable[[], Iterable[Metric]]) -> None:
        """Read a further source from now on."""
        self._registry.register(_Collector(source))

    def scrape(self) -> Scrape:
        """Read all metrics at once."""
        return Scrape(tuple(self._registry.collect()))

    async def text(self) -> bytes:
        """Write all metrics in the text format: on a thread, since for many models that takes a while."""
        return await asyncio.to_thread(self.scrape().text)


@dataclass(frozen=True)
class Scrape:
    """What all metrics were at one moment."""

    families: Sequence[Metric]

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        yield from self.families

    def text(self) -> bytes:
        """Write them in the text format."""
        return generate_latest(self)


@dataclass(frozen=True)
class _Collector:
    """What the registry asks for metrics."""

    collect: Callable[[], Iterable[Metric]]


def of_tallies(tallies: Tallies) -> Iterator[Metric]:
    """Yield the counters and the histograms of what was counted."""
    submitted = CounterMetricFamily(
        "inferwire_submitted_jobs", "Jobs that asked for a place in a queue.", labels=_LABELS
    )
    ended = CounterMetricFamily("inferwire_jobs", "Jobs by how they ended.", labels=(*_LABELS, "outcome"))
    busy = CounterMetricFamily(
        "inferwire_busy_slot_seconds", "Time in which slots ran inferences that gave something.", labels=_LABELS
    )
    counted = tallies.items()
    for labels, tally in counted:
        submitted.add_metric(labels, tally.submitted)
        for outcome in OUTCOMES:
            ended.add_metric((*labels, outcome), tally.outcomes[outcome])
        busy.add_metric(labels, sum(runs.seconds for runs in tally.runs.values()))
    yield from (submitted, ended, busy)
    for name, text, histogram_of in _HISTOGRAMS:
        family = HistogramMetricFamily(name, text, labels=_LABELS)
        for labels, tally in counted:
            histogram = histogram_of(tally)
            family.add_metric(labels, _buckets(histogram), histogram.total)
        yield family


def of_build(version: str, openvino: str) -> Iterator[Metric]:
    """Yield the gauge whose labels tell versions."""
    build = GaugeMetricFamily("inferwire_build_info", "1, labelled with what runs.", labels=("version", "openvino"))
    build.add_metric((version, openvino), 1)
    yield build


def of_occupancies(devices: Iterable[Device]) -> Iterator[Metric]:
    """Yield the gauges of how busy devices and models are."""
    queued = GaugeMetricFamily("inferwire_queued_jobs", "Jobs waiting for a slot.", labels=_LABELS)
    busy = GaugeMetricFamily("inferwire_busy_slots", "Slots that run an inference.", labels=_LABELS)
    slots = GaugeMetricFamily("inferwire_slots", "Slots of a model.", labels=_LABELS)
    bound = GaugeMetricFamily("inferwire_sequences", "Callers whose states a model keeps.", labels=_LABELS)
    capacity = GaugeMetricFamily("inferwire_queue_capacity", "Jobs that may wait.", labels=("device",))
    for device in devices:
        capacity.add_metric((device.name,), device.queue_capacity)
        for labels, occupancy in _by_labels(device).items():
            queued.add_metric(labels, occupancy.queued)
            busy.add_metric(labels, occupancy.running)
            slots.add_metric(labels, occupancy.slots)
            bound.add_metric(labels, occupancy.bound)
    yield from (queued, busy, slots, bound, capacity)


def of_models(versions: Iterable[Served]) -> Iterator[Metric]:
    """Yield the gauges of what has become of the repository's models."""
    labels = ("model", "version")
    ready = GaugeMetricFamily("inferwire_model_ready", "1 where the model takes jobs.", labels=labels)
    failed = GaugeMetricFamily(
        "inferwire_model_load_failed",
        "1 where its last load failed; an older one may go on serving.",
        labels=labels,
    )
    for served in versions:
        ready.add_metric((served.name, served.version), served.takes_jobs)
        failed.add_metric((served.name, served.version), served.load_failed)
    yield from (ready, failed)


def of_results(kept: Kept) -> Iterator[Metric]:
    """Yield the gauges of what callers may still collect."""
    yield GaugeMetricFamily("inferwire_kept_jobs", "Named jobs that have ended and are kept.", kept.jobs)
    yield GaugeMetricFamily("inferwire_kept_result_bytes", "What kept jobs count, in bytes.", kept.byte_size)


def of_refusals(counts: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    """Yield the counter of the requests that were answered with an error of no job."""
    refused = CounterMetricFamily(
        "inferwire_refused_requests", "Requests answered with an error that is no job's.", labels=("face", "code")
    )
    for labels, count in counts.items():
        refused.add_metric(labels, count)
    yield refused


def of_renewals(refused: Mapping[str, bool], certificate_ends_at: float | None) -> Iterator[Metric]:
    """Yield the gauges of files that are read again while the server serves."""
    ends = GaugeMetricFamily(
        "inferwire_certificate_expiration_timestamp_seconds", "When the certificate of both ports ends.", labels=()
    )
    if certificate_ends_at is not None:
        ends.add_metric((), certificate_ends_at)
    refusals = GaugeMetricFamily(
        "inferwire_renewal_refused",
        "1 where what the files hold now cannot be used; what was read before goes on.",
        labels=("file",),
    )
    for what, is_refused in refused.items():
        refusals.add_metric((what,), is_refused)
    yield from (ends, refusals)


def of_connections(counts: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the gauge of the connections that are open, by what is spoken on them."""
    open_ones = GaugeMetricFamily("inferwire_connections", "Connections that are open.", labels=("kind",))
    for kind, count in counts.items():
        open_ones.add_metric((kind,), count)
    yield open_ones


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Give how many values lie below each bound."""
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))


def _by_labels(device: Device) -> dict[tuple[str, str, str], Occupancy]:
    """Add up the models of one name and version: there are two while a reload lets the old one finish."""
    found: dict[tuple[str, str, str], Occupancy] = {}
    for model in device.models:
        occupancy, labels = device.occupancy_of(model), (*labels_of(model), device.name)
        known = found.get(labels, Occupancy(0, 0, 0))
        found[labels] = Occupancy(
            known.running + occupancy.running,
            known.slots + occupancy.slots,
            known.queued + occupancy.queued,
            known.bound + occupancy.bound,
        )
    return found
