"""The scrapes of several workers, added up: read back as Prometheus reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from inferwire_server.composition import Composition
from inferwire_server.core.scheduling.lane import ModelKey
from inferwire_server.crew import ALONE
from inferwire_server.gil_thread import GilThread
from inferwire_server.metrics.jobs import of_tallies
from inferwire_server.metrics.scraping import Metrics
from inferwire_server.metrics.server import of_renewals, of_repository
from inferwire_server.renewals import Renewals
from inferwire_server.settings import Settings
from inferwire_server.sockets import listening
from inferwire_server.tallies import Tallies
from inferwire_server.transport.relay.sums import GAUGES, sum_metrics

NASTY = 'a "quoted" \\ back\\nslash, a\nline, # HELP me {le="+Inf"} 7, \x0b and \u2028'
Series = tuple[str, frozenset[tuple[str, str]]]


def read(text: bytes) -> dict[Series, float]:
    """Read every sample of a scrape; none may stand there twice."""
    samples = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    ]
    assert len({series for series, _ in samples}) == len(samples)
    return dict(samples)


def scrape(tallies: Tallies) -> bytes:
    """Read the metrics of a worker, without what Prometheus' own collectors say."""
    return Metrics(GilThread(), partial(of_tallies, tallies)).scrape().text().partition(b"# HELP process_")[0]


def count(tallies: Tallies, key: ModelKey, batches: Sequence[int], device: str = "CPU") -> Tallies:
    tally = tallies.of(device, key)
    tally.submit(sum(batches))
    for jobs in batches:
        tally.begin_run(jobs)
    return tallies


def series(name: str, **labels: str) -> Series:
    return name, frozenset(labels.items())


def lines(text: bytes) -> list[str]:
    """Give heads, and samples without their values."""
    return [
        line if line.startswith("#") else line.rpartition(" ")[0]
        for line in text.decode().removesuffix("\n").split("\n")
    ]


def test_a_worker_alone_says_what_it_says_in_its_order() -> None:
    tallies = count(Tallies(), "m", [1, 3, 500], device=NASTY)
    tallies.of("CPU", "other").refuse(2**40)
    text = Metrics(GilThread(), partial(of_tallies, tallies)).scrape().text()
    assert {"process_max_fds", "process_start_time_seconds", "inferwire_jobs_total"} <= {name for name, _ in read(text)}
    found = sum_metrics([text])
    assert lines(found) == lines(text)
    assert read(found) == read(text)


def test_jobs_of_workers_add_up_to_those_of_one_server() -> None:
    here, there = count(Tallies(), "m", [1, 3, 500]), count(Tallies(), "m", [2, 3, 3])
    everywhere = count(count(Tallies(), "m", [1, 3, 500]), "m", [2, 3, 3])
    found = sum_metrics([scrape(here), scrape(there)])
    assert lines(found) == lines(scrape(everywhere))
    assert read(found) == read(scrape(everywhere))
    of = {"model": "(uploaded)", "version": "", "device": "CPU"}
    assert read(found)[series("inferwire_batch_jobs_bucket", le="4.0", **of)] == 5
    assert read(found)[series("inferwire_batch_jobs_bucket", le="+Inf", **of)] == 6


def test_samples_that_only_one_worker_has_stand_in_their_family() -> None:
    here, there = count(Tallies(), "m", [1]), count(count(Tallies(), "m", [2]), "m", [4, 8], device=NASTY)
    one_server = count(count(Tallies(), "m", [1, 2]), "m", [4, 8], device=NASTY)
    found = sum_metrics([scrape(here), scrape(there)])
    assert lines(found) == lines(scrape(one_server))
    assert read(found) == read(scrape(one_server))


def scrape_of(*families: Metric) -> bytes:
    class Families:
        def collect(self) -> Iterator[Metric]:
            yield from families

    registry = CollectorRegistry()
    registry.register(Families())
    return generate_latest(registry)


def gauge(name: str, value: float, **labels: str) -> Metric:
    family = GaugeMetricFamily(name, f"{name}: {NASTY}", labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def histogram(counts: Sequence[int], total: float, created: float) -> Metric:
    family = HistogramMetricFamily("h", "Of workers.")
    bounds = [*("0.1", "1.0", "10.0")[: len(counts) - 1], "+Inf"]
    family.add_metric([], list(zip(bounds, counts, strict=True)), total)
    family.add_sample("h_created", {}, created)
    return family


def test_each_kind_of_number_has_its_own_sum() -> None:
    texts = [
        scrape_of(
            CounterMetricFamily("process_cpu_seconds", "CPU.", value=cpu),
            gauge("process_resident_memory_bytes", memory),
            gauge("process_open_fds", fds),
            gauge("process_max_fds", most),
            gauge("process_start_time_seconds", started),
            gauge("python_info", 1, version=NASTY),
            histogram([1, 2, 4, 8], 0.5, created),
        )
        for cpu, memory, fds, most, started, created in (
            (0.1, 5e7, 30, 1024, 1.7e9 + 0.25, 1.7e9 + 9),
            (0.2, 6e7, 40, 9999, 1.7e9 + 0.125, 1.7e9 + 7),
            (0.3, 2.0**53, 50, 5, 1.7e9 + 1, 1.7e9 + 8),
        )
    ]
    found = sum_metrics(texts)
    assert lines(found) == lines(texts[0])
    assert read(found) == {
        series("process_cpu_seconds_total"): 0.6,
        series("process_resident_memory_bytes"): 2.0**53 + 11e7,
        series("process_open_fds"): 50,
        series("process_max_fds"): 1024,
        series("process_start_time_seconds"): 1.7e9 + 0.125,
        series("python_info", version=NASTY): 1,
        series("h_bucket", le="0.1"): 3,
        series("h_bucket", le="1.0"): 6,
        series("h_bucket", le="10.0"): 12,
        series("h_bucket", le="+Inf"): 24,
        series("h_count"): 24,
        series("h_sum"): 1.5,
        series("h_created"): 1.7e9 + 7,
    }


async def test_what_becomes_of_each_gauge_is_decided(composition: Composition, settings: Settings) -> None:
    renewals = Renewals(settings, composition.services.access, None)
    composition.metrics.add(lambda: of_renewals(renewals.refused, renewals.certificate_ends_at))
    composition.metrics.add(lambda: of_repository(is_readable=True))
    async with listening(replace(settings, http_port=0, grpc_port=0), composition, ALONE, None):
        families = text_string_to_metric_families(composition.metrics.scrape().text().decode())
    shown = {each.name for each in families if each.type == "gauge" and not each.name.endswith("_created")}
    assert set(GAUGES) == shown, "`GAUGES` in relay/sums.py says of each gauge how workers' values are combined"


def test_workers_are_of_one_build(composition: Composition) -> None:
    text = composition.metrics.scrape().text()
    build = series("inferwire_build_info", version=version("inferwire"), openvino="fake")
    assert read(sum_metrics([text, text, text]))[build] == read(text)[build] == 1


def test_a_model_is_ready_where_it_is_in_all_workers_and_has_failed_where_it_has_in_any() -> None:
    texts = [
        scrape_of(gauge("inferwire_model_ready", ready), gauge("inferwire_model_load_failed", failed))
        for ready, failed in ((1, 0), (0, 1), (1, 1))
    ]
    found = read(sum_metrics(texts))
    assert found == {series("inferwire_model_ready"): 0, series("inferwire_model_load_failed"): 1}


def test_a_family_that_only_a_follower_has_keeps_its_head() -> None:
    found = sum_metrics([scrape_of(gauge("here", 1)), scrape_of(gauge("there", 2))])
    assert found == scrape_of(gauge("here", 1), gauge("there", 2))


jobs = st.dictionaries(st.tuples(st.sampled_from("mn"), st.text(max_size=4)), st.integers(0, 2**40), max_size=4)


def submitted(found: dict[tuple[str, str], int]) -> bytes:
    family = CounterMetricFamily("inferwire_submitted_jobs", "Jobs.", labels=("model", "device"))
    for labels, value in found.items():
        family.add_metric(labels, value)
    return scrape_of(family)


@given(st.lists(jobs, min_size=1, max_size=4).flatmap(lambda each: st.tuples(st.just(each), st.permutations(each))))
def test_in_what_order_workers_answer_changes_no_number(
    answers: tuple[list[dict[tuple[str, str], int]], list[dict[tuple[str, str], int]]],
) -> None:
    expected = Counter[tuple[str, str]]()
    for found in answers[0]:
        expected.update(found)
    for order in answers:
        read_back = read(sum_metrics([submitted(found) for found in order]))
        assert read_back == read(submitted(dict(expected)))
