"""How a look at a server is drawn."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from inferwire_cli.models.table import STATE_STYLES
from inferwire_cli.terminal import in_short, new_table
from inferwire_cli.top.look import DeviceNow, Look
from inferwire_cli.top.rates import ModelRow, device_per_second, model_rows, process_of

BAR_WIDTH = 12
NOTHING = "-"

WIDE = (
    "model",
    "version",
    "state",
    "device",
    "busy",
    "queued",
    "jobs",
    "jobs/s",
    "troubles",
    "queue ms",
    "device ms",
    "p50 ms",
    "p99 ms",
)
NARROW = ("model", "state", "busy", "queued", "jobs/s", "troubles", "p50 ms", "p99 ms")
TINY = ("model", "state", "queued", "jobs/s", "p99 ms")
WIDE_FROM = 120
NARROW_FROM = 80
"""The columns of models, for terminals that have so many characters in a line and for others."""


def draw(
    now: Look, before: Look | None, where: str, width: int, note: str = "", height: int | None = None
) -> RenderableType:
    """Draw a look, with the rates since the one before.

    The note comes before the parts for which a terminal may be too small. Without a height, everything is drawn.
    """
    return Group(*_parts(now, before, where, width, note, height))


def _parts(
    now: Look, before: Look | None, where: str, width: int, note: str, height: int | None
) -> Iterator[RenderableType]:
    process = process_of(now, before)
    cpus = "" if process.cpus is None else f", {process.cpus:.1f} processors"
    server = Text.assemble((f"{now.server} at {where}", "bold"), f": {process.memory_mb:,.0f} MiB{cpus}")
    yield server
    if note:
        yield Text(note, "red")
    yield Text("")
    yield _devices(now, before, width)
    yield Text("")
    every = list(model_rows(now, before))
    # Two empty lines, and two of headings.
    others = 4 + len(now.devices) + _lines(server.plain, width) + (_lines(note, width) if note else 0)
    rows = every if height is None else _fitting(every, height - others)
    yield _models(rows, width) if rows else Text("the server serves no models")
    if len(rows) < len(every):
        more = f"{len(every) - len(rows)} more: a larger window shows them, and so does --once"
        yield Text(more, "dim", no_wrap=True, overflow="ellipsis")
    for row in rows:
        if row.model.reason:
            yield Text(f"\n{row.model.name} version {row.model.version}: {in_short(row.model.reason)}", "dim")


def _lines(text: str, width: int) -> int:
    """Count the lines that a text takes at most, which is broken between words."""
    cells = cell_len(text)
    return 1 if cells <= width else cells // width + 2


def _fitting(rows: list[ModelRow], room: int) -> list[ModelRow]:
    """Give the rows that there is room for; if not for all, failed models and those with waiting jobs first."""
    if len(rows) <= room:
        return rows
    # One line says how many are left out.
    return sorted(rows, key=_standing)[: max(room - 1, 1)]


def _standing(row: ModelRow) -> tuple[bool, int, float, int]:
    """Order rows: failed models first, then by waiting jobs, then by jobs per second, then by all jobs."""
    return row.model.state != "failed", -row.queued, -(row.per_second or 0.0), -row.jobs


def _devices(now: Look, before: Look | None, width: int) -> Table:
    # Bars would take the room of the numbers that they show.
    has_bars = width >= NARROW_FROM
    table = new_table()
    for heading in ("device", "", "busy", "", "queued", "jobs/s"):
        if heading or has_bars:
            table.add_column(heading, no_wrap=True, justify="right" if heading == "jobs/s" else "left")
    for device in now.devices:
        per_second = _number(device_per_second(device.name, now, before))
        busy, queued = f"{device.running}/{device.slots}", f"{device.queued}/{device.capacity}"
        running, waiting = _bars(device)
        cells = (running, busy, waiting, queued) if has_bars else (busy, queued)
        table.add_row(device.name, *cells, per_second)
    return table


def _bars(device: DeviceNow) -> tuple[Text, Text]:
    return _bar(device.running, device.slots, "green"), _bar(device.queued, device.capacity, "yellow")


def _bar(part: int, whole: int, style: str) -> Text:
    filled = min(BAR_WIDTH, -(-part * BAR_WIDTH // whole)) if whole else 0
    return Text.assemble(("█" * filled, style), ("░" * (BAR_WIDTH - filled), "dim"))


def _models(rows: list[ModelRow], width: int) -> Table:
    columns = WIDE if width >= WIDE_FROM else NARROW if width >= NARROW_FROM else TINY
    table = new_table()
    for heading in columns:
        is_name = heading in ("model", "version", "state", "device")
        # If a line is too short, the model's name is cut, and not the numbers of all models.
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=heading != "model")
    for row in rows:
        cells = _cells(row)
        table.add_row(*(cells[heading] for heading in columns))
    return table


def _cells(row: ModelRow) -> dict[str, str | Text]:
    """Give every cell by its heading."""
    return {
        "model": Text(row.model.name, no_wrap=True),
        "version": row.model.version,
        "state": Text(row.model.state, STATE_STYLES.get(row.model.state, "dim")),
        "device": row.device or NOTHING,
        "busy": f"{row.busy}/{row.slots}" if row.slots else NOTHING,
        "queued": str(row.queued),
        "jobs": f"{row.jobs:,}",
        "jobs/s": _number(row.per_second),
        "troubles": Text(f"{row.troubles:,}", "red" if row.troubles else ""),
        "queue ms": _number(row.queue_ms),
        "device ms": _number(row.inference_ms),
        "p50 ms": _number(row.p50_ms),
        "p99 ms": _number(row.p99_ms),
    }


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
