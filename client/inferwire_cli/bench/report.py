"""The report of a load, for a terminal or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from inferwire_cli.bench.figures import PERCENTILES, Bar, Spread, histogram, spreads
from inferwire_cli.bench.load import Tally
from inferwire_cli.terminal import new_table

EIGHTHS = " ▏▎▍▌▋▊▉"
BAR_WIDTH = 40
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Measured:
    """One finished load."""

    name: str
    version: str
    devices: tuple[str, ...]
    path: str
    concurrency: int
    batch: int
    elapsed_s: float
    per_second: float
    tally: Tally


def as_text(measured: Measured) -> RenderableType:
    """Lay out the report for a terminal."""
    return Group(*_parts(measured))


def as_document(measured: Measured) -> dict[str, Any]:
    """Give the report as JSON."""
    names = ["mean", *(f"p{percentile:g}" for percentile in PERCENTILES), "max"]
    return {
        "model": measured.name,
        "version": measured.version,
        "devices": list(measured.devices),
        "path": measured.path,
        "concurrency": measured.concurrency,
        "batch": measured.batch,
        "seconds": measured.elapsed_s,
        "answered": len(measured.tally.samples),
        "failed": dict(measured.tally.failures),
        "inferences_per_second": measured.per_second,
        "milliseconds": {
            part: None if spread is None else dict(zip(names, _numbers(spread), strict=True))
            for part, spread in spreads(measured.tally.samples).items()
        },
    }


def bar_lines(bars: Sequence[Bar], width: int = BAR_WIDTH) -> Iterator[str]:
    """Draw a histogram, the longest bar as long as the width."""
    longest = max(bar.count for bar in bars)
    texts = [f"{bar.least:.2f}" for bar in bars]
    room = max(map(len, texts))
    for bar, least in zip(bars, texts, strict=True):
        sign = " ≥" if bar.most is None else "  "
        yield f"{sign} {least:>{room}}  {_bar(bar.count / longest, width):<{width}}  {bar.count:,}"


def _parts(measured: Measured) -> Iterator[RenderableType]:
    samples, failures = measured.tally.samples, measured.tally.failures
    where = f"{measured.name} version {measured.version} on {', '.join(measured.devices)}"
    rows = f", batch {measured.batch}" if measured.batch > 1 else ""
    yield Text(f"{where}: {measured.path}, {measured.concurrency} in flight{rows}, {measured.elapsed_s:.1f} s")
    rate = f" ({measured.per_second * measured.batch:,.0f} rows/s)" if measured.batch > 1 else ""
    yield Text.assemble((f"\n{measured.per_second:,.1f} inferences/s", "bold"), rate)
    failed = sum(failures.values())
    yield Text(f"{len(samples):,} answered, {failed:,} failed", "red" if failed else "")
    for reason, count in failures.most_common(3):
        yield Text(f"  {count:,} x {reason}", "red")
    if len(samples):
        yield Text("")
        yield _table(measured)
        yield Text("\nlatency from ms", "bold")
        yield from (Text(line) for line in bar_lines(histogram(samples.column("latency"))))


def _table(measured: Measured) -> Table:
    table = new_table()
    for heading in ("ms", "mean", *(f"p{percentile:g}" for percentile in PERCENTILES), "max"):
        table.add_column(heading, justify="left" if heading == "ms" else "right")
    for part, spread in spreads(measured.tally.samples).items():
        numbers = [NOTHING] if spread is None else [f"{number:,.2f}" for number in _numbers(spread)]
        table.add_row(part, *numbers)
    return table


def _numbers(spread: Spread) -> tuple[float, ...]:
    return spread.mean, *spread.percentiles, spread.most


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    if share and not eighths:
        eighths = 1
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
