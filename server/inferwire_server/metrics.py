"""What operators watch, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

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
from inferwire_server.core.taken import Taken
from inferwire_server.engine.device import Device
from inferwire_server.gil_thread import GilThread
from inferwire_server.repository.catalogue import Served
from inferwire_server.tallies import Counted, Tallies, labels_of

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
    """Reads its sources when it is asked: the functions `of_...` below.

    Each source takes its numbers when it is called, on the event loop, and so all sources at one moment. It gives an
    iterable that makes metrics of these numbers, which takes far longer and is done on a thread.

    Every submitted job ends in one outcome, of which refused is one, or still waits or runs. A stack counts as as many
    jobs as it has executions; executions that were cancelled end with the others.
    """

    def __init__(self, gil_thread: GilThread, *sources: Callable[[], Iterable[Metric]]) -> None:
        self._gil_thread = gil_thread
        self._sources = [*sources]
        self._of_process = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._of_process)

    def add(self, source: Callable[[], Iterable[Metric]]) -> None:
        """Read a further source from now on."""
        self._sources.append(source)

    def scrape(self) -> Scrape:
        """Take all numbers at once, except for those that the system has of the process."""
        return Scrape((*[source() for source in self._sources], self._of_process.collect()))

    async def text(self) -> bytes:
        """Write all metrics in the text format."""
        return await self._gil_thread.run(self.scrape().text)


@dataclass(frozen=True)
class Scrape:
    """What all metrics were at one moment. It can be iterated over once."""

    parts: Sequence[Iterable[Metric]]

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        return chain.from_iterable(self.parts)

    def text(self) -> bytes:
        """Write them in the text format."""
        return generate_latest(self)


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


class _Room(NamedTuple):
    """The gauge of what is taken of something, and that of its limit."""

    used: GaugeMetricFamily
    most: GaugeMetricFamily

    @classmethod
    def of(cls, name: str, text: str, labels: Sequence[str] = ()) -> _Room:
        """Name the gauges, without a value."""
        most = GaugeMetricFamily(f"{name}_limit", f"The most that {name} may be.", labels=labels)
        return cls(GaugeMetricFamily(name, text, labels=labels), most)

    def add(self, labels: Sequence[str], taken: Taken) -> None:
        """Give both gauges the value for these labels."""
        self.used.add_metric(labels, taken.byte_size)
        self.most.add_metric(labels, taken.most_bytes)


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
        "inferwire_submitted_jobs", "Jobs that asked for a place in a queue.", labels=_LABELS
    )
    ended = CounterMetricFamily("inferwire_jobs", "Jobs by how they ended.", labels=(*_LABELS, "outcome"))
    busy = CounterMetricFamily(
        "inferwire_busy_slot_seconds", "Time in which slots ran inferences that gave something.", labels=_LABELS
    )
    for counts in taken:
        submitted.add_metric(counts.labels, counts.submitted)
        for outcome in OUTCOMES:
            ended.add_metric((*counts.labels, outcome), counts.outcomes.get(outcome, 0))
        busy.add_metric(counts.labels, counts.busy_s)
    yield from (submitted, ended, busy)
    for position, (name, text, _) in enumerate(_HISTOGRAMS):
        family = HistogramMetricFamily(name, text, labels=_LABELS)
        for counts in taken:
            values = counts.histograms[position]
            family.add_metric(counts.labels, _buckets(values), values.total)
        yield family


def of_build(version: str, openvino: str) -> Iterable[Metric]:
    """Give the gauge whose labels say which versions run."""
    build = GaugeMetricFamily("inferwire_build_info", "1, labelled with what runs.", labels=("version", "openvino"))
    build.add_metric((version, openvino), 1)
    return (build,)


def of_occupancies(devices: Iterable[Device]) -> Iterable[Metric]:
    """Take how busy devices and models are, for its gauges."""
    return _occupied([_device_load(device) for device in devices])


class _DeviceLoad(NamedTuple):
    """How busy a device is, and what it may be at most."""

    device: str
    queue_capacity: int
    queue_taken: Taken
    running_limit: int
    by_labels: Mapping[Counted, Occupancy]


def _device_load(device: Device) -> _DeviceLoad:
    by_labels = _by_labels(device)
    # More than there are slots in all never run, whatever --max-running allows.
    running_limit = min(device.occupancy.slots, sum(occupancy.slots for occupancy in by_labels.values()))
    return _DeviceLoad(device.name, device.queue_capacity, device.queue_taken, running_limit, by_labels)


def _occupied(loads: Sequence[_DeviceLoad]) -> Iterator[Metric]:
    queued = GaugeMetricFamily("inferwire_queued_jobs", "Jobs waiting for a slot.", labels=_LABELS)
    busy = GaugeMetricFamily("inferwire_busy_slots", "Slots that run an inference.", labels=_LABELS)
    slots = GaugeMetricFamily("inferwire_slots", "Slots of a model.", labels=_LABELS)
    bound = GaugeMetricFamily("inferwire_sequences", "Callers whose states a model keeps.", labels=_LABELS)
    capacity = GaugeMetricFamily("inferwire_queue_capacity", "Jobs that may wait.", labels=("device",))
    limit = GaugeMetricFamily("inferwire_running_limit", "Inferences that may run at once.", labels=("device",))
    taken = _Room.of("inferwire_queued_bytes", "Inputs of waiting jobs, in bytes.", ("device",))
    for load in loads:
        capacity.add_metric((load.device,), load.queue_capacity)
        limit.add_metric((load.device,), load.running_limit)
        taken.add((load.device,), load.queue_taken)
        for labels, occupancy in load.by_labels.items():
            queued.add_metric(labels, occupancy.queued)
            busy.add_metric(labels, occupancy.running)
            slots.add_metric(labels, occupancy.slots)
            bound.add_metric(labels, occupancy.bound)
    yield from (queued, busy, slots, bound, capacity, limit, *taken)


def of_models(versions: Iterable[Served]) -> Iterable[Metric]:
    """Take what has become of the repository's models, for its gauges."""
    return _served([((served.name, served.version), served.takes_jobs, served.load_failed) for served in versions])


def _served(taken: Sequence[tuple[tuple[str, str], bool, bool]]) -> Iterator[Metric]:
    labels = ("model", "version")
    ready = GaugeMetricFamily("inferwire_model_ready", "1 where the model takes jobs.", labels=labels)
    failed = GaugeMetricFamily(
        "inferwire_model_load_failed",
        "1 where its last load failed; an older one may go on serving.",
        labels=labels,
    )
    for version, takes_jobs, load_failed in taken:
        ready.add_metric(version, takes_jobs)
        failed.add_metric(version, load_failed)
    yield from (ready, failed)


def of_results(kept: Kept) -> Iterable[Metric]:
    """Give the gauges of what callers may still collect."""
    results = _Room.of("inferwire_kept_result_bytes", "What kept jobs count, in bytes.")
    results.add((), kept.taken)
    return (GaugeMetricFamily("inferwire_kept_jobs", "Named jobs that have ended and are kept.", kept.jobs), *results)


def of_sessions(sessions: int, compiled: int) -> Iterable[Metric]:
    """Give the gauges of clients' sessions, and of the models that they have compiled."""
    return (
        GaugeMetricFamily("inferwire_sessions", "Sessions of clients.", sessions),
        GaugeMetricFamily("inferwire_client_models", "Models that clients have compiled.", compiled),
    )


def of_storage(tensors: Taken, uploads: Taken | None) -> Iterable[Metric]:
    """Give the gauges of what sessions keep and may keep; where there are no uploads, those have no value."""
    kept = _Room.of("inferwire_kept_tensor_bytes", "Tensors that sessions keep, in bytes.")
    kept.add((), tensors)
    uploaded = _Room.of("inferwire_upload_bytes", "Files that sessions have uploaded, in bytes.")
    if uploads is not None:
        uploaded.add((), uploads)
    return (*kept, *uploaded)


def of_polling(polled_s: float) -> Iterable[Metric]:
    """Give the counter of the time in which the server looked for the next inference instead of sleeping."""
    return (CounterMetricFamily("inferwire_busy_poll_seconds", "Time spent looking for what comes next.", polled_s),)


def of_refusals(counts: Mapping[tuple[str, str], int]) -> Iterable[Metric]:
    """Give the counter of the requests that were answered with an error of no job."""
    refused = CounterMetricFamily(
        "inferwire_refused_requests", "Requests answered with an error that is no job's.", labels=("interface", "code")
    )
    for labels, count in counts.items():
        refused.add_metric(labels, count)
    return (refused,)


def of_renewals(refused: Mapping[str, bool], certificate_ends_at: float | None) -> Iterable[Metric]:
    """Give the gauges of files that are read again while the server serves."""
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
    return (ends, refusals)


def of_connections(counts: Mapping[str, int]) -> Iterable[Metric]:
    """Give the gauge of the connections that are open, by what is spoken on them."""
    open_ones = GaugeMetricFamily("inferwire_connections", "Connections that are open.", labels=("kind",))
    for kind, count in counts.items():
        open_ones.add_metric((kind,), count)
    return (open_ones,)


def _buckets(values: _Values) -> list[tuple[str, float]]:
    """Give how many values lie below each bound."""
    bounds = [*(str(float(bound)) for bound in values.bounds), "+Inf"]
    return list(zip(bounds, accumulate(values.counts), strict=True))


def _by_labels(device: Device) -> dict[Counted, Occupancy]:
    """Add up the models of one name and version: there are two while a reload lets the old one finish."""
    found: dict[Counted, Occupancy] = {}
    for model in device.models:
        occupancy, labels = device.occupancy_of(model), Counted(*labels_of(model), device.name)
        known = found.get(labels, Occupancy(0, 0, 0))
        found[labels] = Occupancy(
            known.running + occupancy.running,
            known.slots + occupancy.slots,
            known.queued + occupancy.queued,
            known.bound + occupancy.bound,
        )
    return found
