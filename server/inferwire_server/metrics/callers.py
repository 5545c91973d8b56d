"""The metrics of callers: their connections and sessions, what is kept for them, and what they were refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from inferwire_server.core.ledger import Kept
from inferwire_server.core.taken import Taken
from inferwire_server.metrics.room import Room


def of_connections(counts: Mapping[str, int]) -> Iterable[Metric]:
    """Give the gauge of the connections that are open, by what is spoken on them."""
    open_ones = GaugeMetricFamily("inferwire_connections", "Connections that are open.", labels=("kind",))
    for kind, count in counts.items():
        open_ones.add_metric((kind,), count)
    return (open_ones,)


def of_results(kept: Kept) -> Iterable[Metric]:
    """Give the gauges of what callers may still collect."""
    results = Room.of("inferwire_kept_result_bytes", "What kept jobs count, in bytes.")
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
    kept = Room.of("inferwire_kept_tensor_bytes", "Tensors that sessions keep, in bytes.")
    kept.add((), tensors)
    uploaded = Room.of("inferwire_upload_bytes", "Files that sessions have uploaded, in bytes.")
    if uploads is not None:
        uploaded.add((), uploads)
    return (*kept, *uploaded)


def of_refusals(counts: Mapping[tuple[str, str], int]) -> Iterable[Metric]:
    """Give the counter of the requests that were answered with an error of no job."""
    refused = CounterMetricFamily(
        "inferwire_refused_requests", "Requests answered with an error that is no job's.", labels=("interface", "code")
    )
    for labels, count in counts.items():
        refused.add_metric(labels, count)
    return (refused,)
