"""Prometheus' text, and what two looks at a server say together."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from inferwire_cli.top.look import DeviceNow, Look, ModelNow
from inferwire_cli.top.metrics_text import Histogram, Metrics
from inferwire_cli.top.rates import device_per_second, model_rows, process_of
from inferwire_cli.top.screen import draw


def scrape(jobs: int, failed: int = 0, slow: int = 0) -> Metrics:
    """Write what a server says that has run so many jobs of a millisecond, and some of a second."""
    labels = 'device="CPU",model="m",version="1"'
    fast = jobs - slow
    return Metrics(
        f"""# HELP inferwire_jobs_total Jobs by how they ended.
inferwire_jobs_total{{{labels},outcome="finished"}} {jobs}
inferwire_jobs_total{{{labels},outcome="failed"}} {failed}
inferwire_slots{{{labels}}} 2.0
inferwire_slots{{device="CPU",model="(uploaded)",version=""}} 1.0
inferwire_busy_slots{{{labels}}} 1.0
inferwire_queued_jobs{{{labels}}} 3.0
inferwire_total_seconds_bucket{{{labels},le="0.001"}} {fast}
inferwire_total_seconds_bucket{{{labels},le="1.0"}} {jobs}
inferwire_total_seconds_bucket{{{labels},le="+Inf"}} {jobs}
inferwire_total_seconds_sum{{{labels}}} {fast * 0.001 + slow}
inferwire_queue_seconds_bucket{{{labels},le="+Inf"}} {jobs}
inferwire_queue_seconds_sum{{{labels}}} {jobs * 0.004}
process_resident_memory_bytes 1.048576e+08
process_cpu_seconds_total {jobs / 100}
"""
    )


def seen(at_s: float, metrics: Metrics, *models: ModelNow) -> Look:
    return Look(at_s, "inferwire 1.0", (DeviceNow("CPU", 1, 2, 3, 256),), models, metrics)


def test_labels_may_have_signs_of_their_own_in_them() -> None:
    metrics = Metrics('jobs{model="a\\"b\\\\c\\nd, e=\\"}\\"",version="1"} 7\njobs{model="x"} 1\n\nno line\n')
    assert metrics.sum("jobs", {"model": 'a"b\\c\nd, e="}"'}) == 7
    assert metrics.sum("jobs") == 8
    assert metrics.sum("other") == 0
    assert metrics.groups("jobs", ("version", "model")) == [("", "x"), ("1", 'a"b\\c\nd, e="}"')]


def test_what_python_takes_for_the_end_of_a_line_is_none() -> None:
    metrics = Metrics('jobs{model="a\u2028b"} 1\njobs{model="a\x0bb"} 2\n')
    assert metrics.sum("jobs") == 3
    assert metrics.groups("jobs", ["model"]) == [("a\x0bb",), ("a\u2028b",)]


def test_a_quantile_lies_between_its_bounds() -> None:
    histogram = Histogram({1.0: 50.0, 2.0: 100.0, float("inf"): 100.0}, 120.0)
    assert histogram.quantile(0.5) == 1.0
    assert histogram.quantile(0.75) == 1.5
    assert histogram.mean == 1.2
    assert Histogram({1.0: 0.0, float("inf"): 4.0}).quantile(0.5) == 1.0
    assert Histogram({1.0: 0.0}).quantile(0.5) is None
    assert Histogram().mean is None


def test_rates_and_times_are_those_between_two_looks() -> None:
    model = ModelNow("m", "1", "ready")
    before, now = seen(10.0, scrape(100), model), seen(12.0, scrape(300, failed=2, slow=100), model)
    served, uploaded = model_rows(now, before)
    assert (served.device, served.busy, served.slots, served.queued) == ("CPU", 1, 2, 3)
    assert (served.jobs, served.troubles, served.per_second) == (302, 2, 100.0)
    assert served.queue_ms == pytest.approx(4.0)
    assert served.inference_ms is None
    assert served.p50_ms == pytest.approx(1.0)
    assert served.p99_ms is not None
    assert 900 < served.p99_ms < 1000
    assert uploaded.model.name == "(uploaded)"
    assert device_per_second("CPU", now, before) == 100.0
    assert process_of(now, before).cpus == pytest.approx(1.0)
    assert process_of(now, None).memory_mb == 100.0


def test_the_first_look_has_no_rates_and_a_restart_none_below_zero() -> None:
    model = ModelNow("m", "1", "ready")
    (first, _) = model_rows(seen(1.0, scrape(100), model), None)
    assert (first.per_second, first.p50_ms) == (None, pytest.approx(0.5))
    before, restarted = seen(1.0, scrape(100), model), seen(2.0, scrape(10), model)
    (again, _) = model_rows(restarted, before)
    assert (again.per_second, again.p50_ms) == (0.0, pytest.approx(0.5))
    assert process_of(restarted, before).cpus == 0.0


@pytest.mark.parametrize("width", [45, 70, 80, 130])
def test_it_fits_the_terminal_and_keeps_what_counts(width: int) -> None:
    broken = ModelNow("broken", "1", "failed", "no\n  such file")
    look = seen(2.0, scrape(1234567), ModelNow("m", "1", "ready"), broken)
    console = Console(file=StringIO(), width=width, record=True)
    console.print(draw(look, seen(1.0, scrape(1234000), ModelNow("m", "1", "ready")), "box:8000", width, "a note"))
    lines = console.export_text().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    text = "\n".join(lines)
    for part in (
        "inferwire 1.0 at box:8000: 100 MiB",
        "3/256",
        "p99 ms",
        "567",
        "broken version 1: no such file",
        "a note",
    ):
        assert part in text
    assert "…" not in text


def lines_of(models: int, height: int | None, note: str = "", width: int = 80) -> list[str]:
    """Draw so many models, of which the last has failed and the one before has jobs that wait."""
    quiet = [ModelNow(f"m{number:02}", "1", "ready") for number in range(models - 2)]
    look = seen(
        2.0, scrape(100), *quiet, ModelNow("m", "1", "ready"), ModelNow("broken", "1", "failed", "no such file")
    )
    console = Console(file=StringIO(), width=width, record=True)
    console.print(draw(look, None, "box:8000", width, note, height))
    return console.export_text().splitlines()


def test_a_server_that_is_away_is_told_of_before_what_a_terminal_may_have_no_room_for() -> None:
    note = "no HTTP server answers at box:8000"
    lines = lines_of(40, 24, note)
    assert lines[1] == note
    assert len([line for line in lines if line]) <= 24
    assert lines_of(40, None, note)[1] == note


def test_of_more_models_than_there_is_room_for_those_that_somebody_looks_for_are_shown() -> None:
    lines = lines_of(40, 24)
    headings = next(number for number, line in enumerate(lines) if line.startswith("model"))
    assert [line.split()[0] for line in lines[headings + 1 : headings + 3]] == ["broken", "m"]
    # The 40, and the one of clients' own models.
    assert lines[23].startswith("24 more: ")
    assert lines[25] == "broken version 1: no such file"


def test_how_many_models_are_left_out_is_seen_where_lines_are_broken() -> None:
    lines = lines_of(40, 24, width=30)
    assert lines[1] == "MiB"
    (more,) = (line for line in lines[:24] if "more: " in line)
    assert len(more) <= 30
    assert more.endswith("…"), "it takes one line, for which there is room"


@pytest.mark.parametrize("height", [None, 50])
def test_models_that_there_is_room_for_are_shown_in_their_order(height: int | None) -> None:
    lines = lines_of(40, height)
    assert [line.split()[0] for line in lines[6:47]] == [
        *(f"m{number:02}" for number in range(38)),
        "m",
        "broken",
        "(uploaded)",
    ]
    assert not any("more: " in line for line in lines)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_name_is_cut_and_leaves_everything_else_whole(width: int) -> None:
    look = seen(2.0, scrape(100), ModelNow("m", "1", "ready"), ModelNow("customer segments " * 4, "1", "failed"))
    console = Console(file=StringIO(), width=width, record=True)
    console.print(draw(look, None, "box:8000", width))
    lines = console.export_text().splitlines()
    headings = next(line for line in lines if line.startswith("model"))
    assert "…" not in headings
    (m,) = (line.split() for line in lines if line.startswith("m "))
    assert {"ready", "3", "0.99"} <= set(m)
    (cut,) = (line for line in lines if "segments" in line)
    assert "failed" in cut.split()
