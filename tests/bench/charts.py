"""Bar charts of what a run found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from tests.bench.rounds import Ratio, Row, Rows

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {
    "in process": "#9aa0a6",
    "floor": "#dadce0",
    "SDK": "#1a73e8",
    "OIP gRPC": "#e8710a",
    "REST": "#188038",
}
"""By the family of ways, with which their names begin."""
OURS, THEIRS = "#1a73e8", "#9aa0a6"
COLUMNS = 2
FAR_OFF = 2.0


def of_ways(cases: Mapping[str, Rows], path: Path) -> None:
    """Draw each case's ratios to in process, with the least and the most of the rounds."""
    height = -(-len(cases) // COLUMNS)
    figure, grid = plt.subplots(
        height, COLUMNS, figsize=(7.5 * COLUMNS, 4.2 * height), layout="constrained", squeeze=False
    )
    for axis in grid.flat[len(cases) :]:
        axis.set_visible(False)
    for axis, (title, measured) in zip(grid.flat, cases.items(), strict=False):
        base = next(iter(measured.values()))
        rows = {name: row for name, row in measured.items() if not _is_far_off(name, row, base)}
        ratios = [row.ratio(base) for row in rows.values()]
        middles = [ratio.middle for ratio in ratios]
        spread = [[r.middle - r.least for r in ratios], [r.most - r.middle for r in ratios]]
        colours = [colour(name) for name in rows]
        bars = axis.barh(list(rows), middles, color=colours, xerr=spread, error_kw={"elinewidth": 0.8})
        axis.bar_label(bars, [f"  {_label(row, base)}" for row in rows.values()], fontsize=8)
        _dress(axis, title, max(ratio.most for ratio in ratios))
    figure.supxlabel("inferences per second, as a ratio to openvino in process")
    _save(figure, path)


def of_peers(ratios: Mapping[str, Ratio], path: Path) -> None:
    """Draw how many times as fast as each peer this server is; a peer is left of the line where it is faster."""
    figure, axis = plt.subplots(figsize=(11, 0.42 * len(ratios) + 1.2), layout="constrained")
    middles = [ratio.middle for ratio in ratios.values()]
    spread = [[r.middle - r.least for r in ratios.values()], [r.most - r.middle for r in ratios.values()]]
    colours = [OURS if middle >= 1 else THEIRS for middle in middles]
    bars = axis.barh(list(ratios), middles, color=colours, xerr=spread, error_kw={"elinewidth": 0.8})
    axis.bar_label(bars, [f"  {middle:.2f}" for middle in middles], fontsize=8)
    _dress(axis, "inferwire's requests per second, as a ratio to the peer's", max(r.most for r in ratios.values()))
    _save(figure, path)


def colour(way: str) -> str:
    """Give the colour of a way's family.

    Raises:
        LookupError: If it is of none.
    """
    for family, colour in COLOURS.items():
        if way.startswith(family):
            return colour
    raise LookupError(f"the way '{way}' has no colour, expected a name that begins with one of: {', '.join(COLOURS)}")


def _is_far_off(name: str, row: Row, base: Row) -> bool:
    """Whether it is a floor so much faster than a model that beside it the rest would not be seen."""
    return name.startswith("floor") and row.ratio(base).middle > FAR_OFF


def _label(row: Row, base: Row) -> str:
    return f"{row.ratio(base).middle:.2f} ({row.middle('per_second'):,.0f}/s)"


def _dress(axis: Axes, title: str, most: float) -> None:
    axis.axvline(1.0, color="#202124", linewidth=0.8, linestyle=":")
    axis.set_xlim(0, most * 1.35)
    axis.set_title(title, fontsize=10)
    axis.margins(y=0.02)
    axis.invert_yaxis()
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=80)
    plt.close(figure)
