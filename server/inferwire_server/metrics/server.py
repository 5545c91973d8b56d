"""The metrics of the server itself: what runs, what it serves, and what of its files it cannot use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from inferwire_server.repository.catalogue import Served


def of_build(version: str, openvino: str) -> Iterable[Metric]:
    """Give the gauge whose labels say which versions run."""
    build = GaugeMetricFamily("inferwire_build_info", "1, labelled with what runs.", labels=("version", "openvino"))
    build.add_metric((version, openvino), 1)
    return (build,)


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


def of_repository(*, is_readable: bool) -> Iterable[Metric]:
    """Give the gauge of a repository that is read again while the server serves."""
    text = "1 where the repository could not be read when it was last looked at; what was loaded before goes on."
    return (GaugeMetricFamily("inferwire_repository_unreadable", text, not is_readable),)


def of_polling(polled_s: float) -> Iterable[Metric]:
    """Give the counter of the time in which the server looked for the next inference instead of sleeping."""
    return (CounterMetricFamily("inferwire_busy_poll_seconds", "Time spent looking for what comes next.", polled_s),)


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
