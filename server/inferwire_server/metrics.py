"""What operators watch, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)

from inferwire_server.core.ledger import Kept
from inferwire_server.core.occupancy import Occupancy
from inferwire_server.core.tally import OUTCOMES, Histogram, Tally
from inferwire_server.engine.catalogue import Served
from inferwire_server.engine.device import Device
from inferwire_server.engine.tallies import Tallies, labels_of

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
    ("inferwire_batch_jobs", "Jobs that one inference ran.", lambda tally: tally.jobs),
)


class Metrics:
    """Names what devices count, and reads queues and slots when it is asked. All of it on the loop.

    Every submitted job ends in one outcome, refused among them, or still waits or runs. A stack counts as so many
    jobs; those of its executions that were cancelled end with the others.
    """

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies
        self._registry = CollectorRegistry()
        self._registry.register(_Tallies(tallies))
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def watch(self, devices: Callable[[], Iterable[Device]]) -> None:
        """Read the load of these devices at every scrape."""
        self._registry.register(_Occupancies(devices))

    def watch_models(self, served: Callable[[], Iterable[Served]]) -> None:
        """Read at every scrape which of the repository's models are ready."""
        self._registry.register(_Models(served))

    def watch_results(self, kept: Callable[[], Kept]) -> None:
        """Read at every scrape what is kept of named jobs that have ended."""
        self._registry.register(_Results(kept))

    def watch_refusals(self, counts: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Read at every scrape how many requests were answered with an error of no job, by face and code."""
        self._registry.register(_Refusals(counts))

    def text(self) -> bytes:
        """Write all metrics in the text format."""
        return "".join(_histograms(self._tallies)).encode() + generate_latest(self._registry)


class _Tallies:
    """Collects what was counted, but for the histograms."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies

    def collect(self) -> Iterator[Metric]:
        """Yield the counters."""
        submitted = CounterMetricFamily(
            "inferwire_submitted_jobs", "Jobs that asked for a place in a queue.", labels=_LABELS
        )
        ended = CounterMetricFamily("inferwire_jobs", "Jobs by how they ended.", labels=(*_LABELS, "outcome"))
        for labels, tally in self._tallies.items():
            submitted.add_metric(labels, tally.submitted)
            for outcome in OUTCOMES:
                ended.add_metric((*labels, outcome), tally.outcomes[outcome])
        yield from (submitted, ended)


class _Occupancies:
    """Collects how busy devices and models are at the moment of the scrape."""

    def __init__(self, devices: Callable[[], Iterable[Device]]) -> None:
        self._devices = devices

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        queued = GaugeMetricFamily("inferwire_queued_jobs", "Jobs waiting for a slot.", labels=_LABELS)
        busy = GaugeMetricFamily("inferwire_busy_slots", "Slots that run an inference.", labels=_LABELS)
        slots = GaugeMetricFamily("inferwire_slots", "Slots of a model.", labels=_LABELS)
        bound = GaugeMetricFamily("inferwire_sequences", "Callers whose states a model keeps.", labels=_LABELS)
        capacity = GaugeMetricFamily("inferwire_queue_capacity", "Jobs that may wait.", labels=("device",))
        for device in self._devices():
            capacity.add_metric((device.name,), device.queue_capacity)
            for labels, occupancy in _by_labels(device).items():
                queued.add_metric(labels, occupancy.queued)
                busy.add_metric(labels, occupancy.running)
                slots.add_metric(labels, occupancy.slots)
                bound.add_metric(labels, occupancy.bound)
        yield from (queued, busy, slots, bound, capacity)


class _Models:
    """Collects what has become of the repository's models."""

    def __init__(self, served: Callable[[], Iterable[Served]]) -> None:
        self._served = served

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        labels = ("model", "version")
        ready = GaugeMetricFamily("inferwire_model_ready", "1 where the model takes jobs.", labels=labels)
        failed = GaugeMetricFamily(
            "inferwire_model_load_failed",
            "1 where its last load failed; an older one may go on serving.",
            labels=labels,
        )
        for served in self._served():
            ready.add_metric((served.name, served.version), served.takes_jobs)
            failed.add_metric((served.name, served.version), served.load_failed)
        yield from (ready, failed)


class _Results:
    """Collects what callers may still collect."""

    def __init__(self, kept: Callable[[], Kept]) -> None:
        self._kept = kept

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        kept = self._kept()
        yield GaugeMetricFamily("inferwire_kept_jobs", "Named jobs that have ended and are kept.", kept.jobs)
        yield GaugeMetricFamily("inferwire_kept_result_bytes", "What kept jobs count, in bytes.", kept.byte_size)


class _Refusals:
    """Collects the requests that were answered with an error of no job."""

    def __init__(self, counts: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Yield the counter."""
        refused = CounterMetricFamily(
            "inferwire_refused_requests", "Requests answered with an error that is no job's.", labels=("face", "code")
        )
        for labels, count in self._counts().items():
            refused.add_metric(labels, count)
        yield refused


def _histograms(tallies: Tallies) -> Iterator[str]:
    """Write the histograms: nearly all lines are theirs, and while the library writes so many, nobody is served."""
    counted = [(_written(labels), tally) for labels, tally in tallies.items()]
    for name, text, histogram_of in _HISTOGRAMS:
        yield f"# HELP {name} {text}\n# TYPE {name} histogram\n"
        for labels, tally in counted:
            histogram = histogram_of(tally)
            bounds = (*map(float, histogram.bounds), "+Inf")
            for bound, count in zip(bounds, accumulate(histogram.counts), strict=True):
                yield f'{name}_bucket{{{labels},le="{bound}"}} {count}.0\n'
            yield f"{name}_count{{{labels}}} {histogram.count}.0\n"
            yield f"{name}_sum{{{labels}}} {float(histogram.total)}\n"


def _written(labels: Iterable[str]) -> str:
    """Write what tells a model's samples from others."""
    escaped = (value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for value in labels)
    return ",".join(f'{name}="{value}"' for name, value in zip(_LABELS, escaped, strict=True))


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
