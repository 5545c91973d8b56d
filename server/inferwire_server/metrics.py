"""What operators watch, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from inferwire_server.core.job import Job, JobState
from inferwire_server.core.lane import ModelKey
from inferwire_server.core.scheduler import Load
from inferwire_server.core.stacks import ends
from inferwire_server.engine.device import Device
from inferwire_server.engine.models import Model

_LABELS = ("model", "version", "device")
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts what happens to jobs, and reads queues and slots when it is asked.

    Every submitted job ends in one outcome, refused among them, or still waits or runs. A stack counts as so many
    jobs; those of its executions that were cancelled end with the others.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._submitted = Counter(
            "inferwire_submitted_jobs", "Jobs that asked for a place in a queue.", _LABELS, registry=self._registry
        )
        self._jobs = Counter(
            "inferwire_jobs", "Jobs by how they ended.", (*_LABELS, "outcome"), registry=self._registry
        )
        self._queue = self._histogram("inferwire_queue_seconds", "Time from admission to a slot.")
        self._inference = self._histogram("inferwire_inference_seconds", "Time of finished jobs in a slot.")
        self._total = self._histogram("inferwire_total_seconds", "Time of finished jobs from admission to their end.")
        self._wire = self._histogram(
            "inferwire_wire_seconds", "Time of answered calls besides their jobs: reading requests, writing answers."
        )
        self._batch = self._histogram("inferwire_batch_jobs", "Jobs that one inference ran.", _BATCHES)
        self._children: dict[ModelKey, _ModelMetrics] = {}
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def watch(self, devices: Callable[[], Iterable[Device]]) -> None:
        """Read the load of these devices at every scrape."""
        self._registry.register(_Loads(devices))

    def job_submitted(self, device: str, model: ModelKey, count: int) -> None:
        """Count a job that asks to be admitted."""
        self._of(device, model).submitted.inc(count)

    def job_refused(self, device: str, model: ModelKey, count: int) -> None:
        """Count a job that was not admitted."""
        self._of(device, model).outcome("refused", count)

    def inference_started(self, device: str, model: ModelKey, count: int) -> None:
        """Count an inference by the jobs that it runs."""
        self._of(device, model).batch.observe(count)

    def job_ended(self, device: str, job: Job) -> None:
        """Count a job that has ended."""
        model, timings = self._of(device, job.model), job.timings
        counts = ends(job)
        for state, count in counts.items():
            model.outcome(state.value, count)
        if job.started_at is not None:
            for _ in range(job.count):
                model.queue.observe(timings.queue_s)
        for _ in range(counts.get(JobState.FINISHED, 0)):
            model.inference.observe(timings.inference_s)
            model.total.observe(timings.total_s)

    def job_answered(self, device: str, job: Job, wire_s: float, count: int) -> None:
        """Count what the answered call of a job took besides the job; its model may have gone meanwhile."""
        known = self._children.get(job.model)
        wire = self._wire.labels(*_model_labels(job.model), device) if known is None else known.wire
        for _ in range(count):
            wire.observe(wire_s)

    def model_gone(self, model: ModelKey) -> None:
        """Forget a model that takes no more jobs; its counts stay."""
        self._children.pop(model, None)

    def text(self) -> bytes:
        """Write all metrics in the text format."""
        return generate_latest(self._registry)

    def _of(self, device: str, model: ModelKey) -> _ModelMetrics:
        found = self._children.get(model)
        if found is None:
            labels = (*_model_labels(model), device)
            found = self._children[model] = _ModelMetrics(
                submitted=self._submitted.labels(*labels),
                queue=self._queue.labels(*labels),
                inference=self._inference.labels(*labels),
                total=self._total.labels(*labels),
                wire=self._wire.labels(*labels),
                batch=self._batch.labels(*labels),
                outcome=lambda name, count: self._jobs.labels(*labels, name).inc(count),
            )
        return found

    def _histogram(self, name: str, text: str, buckets: Sequence[float] = _SECONDS) -> Histogram:
        return Histogram(name, text, _LABELS, buckets=buckets, registry=self._registry)


@dataclass(frozen=True, slots=True)
class _ModelMetrics:
    """One model's counters and histograms, looked up once."""

    submitted: Counter
    queue: Histogram
    inference: Histogram
    total: Histogram
    wire: Histogram
    batch: Histogram
    outcome: Callable[[str, int], None]


class _Loads:
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
            for labels, load in _loads(device).items():
                queued.add_metric(labels, load.queued)
                busy.add_metric(labels, load.running)
                slots.add_metric(labels, load.slots)
                bound.add_metric(labels, load.bound)
        yield from (queued, busy, slots, bound, capacity)


def _loads(device: Device) -> dict[tuple[str, str, str], Load]:
    """Add up the models of one name and version: there are two while a reload lets the old one finish."""
    loads: dict[tuple[str, str, str], Load] = {}
    for model in device.models:
        load, labels = device.load_of(model), (*_model_labels(model), device.name)
        known = loads.get(labels, Load(0, 0, 0))
        loads[labels] = Load(
            known.running + load.running,
            known.slots + load.slots,
            known.queued + load.queued,
            known.bound + load.bound,
        )
    return loads


def _model_labels(model: ModelKey) -> tuple[str, str]:
    """Name a served model; clients' own share one name, since there is no end of them."""
    return (model.name, model.version) if isinstance(model, Model) and model.version else ("(uploaded)", "")
