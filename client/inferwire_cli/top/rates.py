"""Rates and times of what a server did between two looks at it. Computes only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inferwire_cli.top.look import Look, ModelNow
from inferwire_cli.top.metrics_text import Histogram

JOBS = "inferwire_jobs_total"


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A version of a model on its device; times in milliseconds, None if nothing happened.

    Attributes:
        jobs: Those that have ended, ever.
        per_second: Those that ended well, in a second; None for the first look.
        troubles: Those that ended otherwise: failed, invalid, refused, cancelled or expired.
    """

    model: ModelNow
    device: str
    busy: int
    slots: int
    queued: int
    jobs: int
    per_second: float | None
    troubles: int
    queue_ms: float | None
    inference_ms: float | None
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Process:
    """The resources that the server's process takes; the share of processors is None for the first look."""

    memory_mb: float
    cpus: float | None


def process_of(now: Look, before: Look | None) -> Process:
    """Tell which resources the process takes."""
    memory = now.metrics.sum("process_resident_memory_bytes") / 2**20
    return Process(memory, _per_second("process_cpu_seconds_total", {}, now, before))


def model_rows(now: Look, before: Look | None) -> Iterator[ModelRow]:
    """Give a row for each version on each device, and those of clients' own models last."""
    served = {(model.name, model.version): model for model in now.models}
    seen = now.metrics.groups("inferwire_slots", ("model", "version", "device"))
    for model in now.models:
        devices = [device for name, version, device in seen if (name, version) == (model.name, model.version)]
        for device in devices or [""]:
            yield _row(model, device, now, before)
    for name, version, device in seen:
        if (name, version) not in served:
            yield _row(ModelNow(name, version, ""), device, now, before)


def device_per_second(device: str, now: Look, before: Look | None) -> float | None:
    """Tell how many jobs ended well on a device in a second."""
    return _per_second(JOBS, {"device": device, "outcome": "finished"}, now, before)


def _row(model: ModelNow, device: str, now: Look, before: Look | None) -> ModelRow:
    labels = {"model": model.name, "version": model.version}
    labels |= {"device": device} if device else {}
    finished = {**labels, "outcome": "finished"}
    jobs, well = now.metrics.sum(JOBS, labels), now.metrics.sum(JOBS, finished)
    total = _between("inferwire_total_seconds", labels, now, before)
    return ModelRow(
        model=model,
        device=device,
        busy=int(now.metrics.sum("inferwire_busy_slots", labels)),
        slots=int(now.metrics.sum("inferwire_slots", labels)),
        queued=int(now.metrics.sum("inferwire_queued_jobs", labels)),
        jobs=int(jobs),
        per_second=_per_second(JOBS, finished, now, before),
        troubles=int(jobs - well),
        queue_ms=_ms(_between("inferwire_queue_seconds", labels, now, before).mean),
        inference_ms=_ms(_between("inferwire_inference_seconds", labels, now, before).mean),
        p50_ms=_ms(total.quantile(0.5)),
        p99_ms=_ms(total.quantile(0.99)),
    )


def _per_second(name: str, labels: Mapping[str, str], now: Look, before: Look | None) -> float | None:
    """Tell by how much a count grew in a second; None for the first look."""
    if before is None or now.at_s <= before.at_s:
        return None
    # A server that has restarted counts from zero again.
    return max(0.0, now.metrics.sum(name, labels) - before.metrics.sum(name, labels)) / (now.at_s - before.at_s)


def _between(name: str, labels: Mapping[str, str], now: Look, before: Look | None) -> Histogram:
    latest = now.metrics.histogram(name, labels)
    if before is None:
        return latest
    earlier = before.metrics.histogram(name, labels)
    return latest if earlier.count > latest.count else latest.since(earlier)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
