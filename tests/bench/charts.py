"""Bar charts of a run's results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from tests.bench.rounds import Ratio, Row, Rows

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

COLOURS = {
    "in process": "#9aa0a6",
    "floor": "#dadce0",
    "SDK": "#1a73e8",
    "OIP gRPC": "#e8710a",
    "REST": "#188038",
}
"""The colour of each family of ways, with whose name their names begin."""
OURS = {"inferwire": "#1a73e8", "inferwire with 2 workers": "#8ab4f8"}
"""The colour of each way in which this server runs."""
SLOWER = "#c5221f"
COLUMNS = 2
FAR_OFF = 2.0

Groups = Mapping[str, Mapping[str, Mapping[str, Ratio]]]
"""Ratios of the ways in which this server runs, by peer and path, by network and load."""


def of_ways(cases: Mapping[str, Rows], path: Path) -> None:
    """Draw each case's ratios to in process, with the least and the most of the rounds."""
    figure, grid = _grid(len(cases), 4.2)
    for axis, (title, measured) in zip(grid, cases.items(), strict=True):
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


def of_peers(groups: Groups, path: Path) -> None:
    """Draw how many times as fast as each peer this server is; left of the line, and in red, the peer is faster."""
    figure, grid = _grid(len(groups), 5.2)
    for axis, (title, ratios) in zip(grid, groups.items(), strict=True):
        ways = {name: shade for name, shade in OURS.items() if any(name in found for found in ratios.values())}
        thickness = 0.8 / len(ways)
        for number, (name, shade) in enumerate(ways.items()):
            found = {at: each[name] for at, each in enumerate(ratios.values()) if name in each}
            middles = [ratio.middle for ratio in found.values()]
            spread = [[r.middle - r.least for r in found.values()], [r.most - r.middle for r in found.values()]]
            heights = [at + (number - (len(ways) - 1) / 2) * thickness for at in found]
            bars = axis.barh(heights, middles, thickness, color=shade, xerr=spread, error_kw={"elinewidth": 0.8})
            labels = [f"  {str(ratio).partition(' ')[0]}" for ratio in found.values()]
            for label, middle in zip(axis.bar_label(bars, labels, fontsize=8), middles, strict=True):
                label.set_color("black" if middle >= 1 else SLOWER)
        axis.set_yticks(range(len(ratios)), list(ratios))
        _dress(axis, title, max(each.most for found in ratios.values() for each in found.values()))
    figure.legend(
        handles=[Patch(color=shade, label=name) for name, shade in OURS.items()],
        loc="outside upper right",
        ncols=2,
        frameon=False,
    )
    figure.supxlabel("inferwire's requests per second, as a ratio to the peer's")
    _save(figure, path)


def colour(way: str) -> str:
    """Give the colour of a way's family.

    Raises:
        LookupError: If it belongs to none.
    """
    for family, colour in COLOURS.items():
        if way.startswith(family):
            return colour
    raise LookupError(f"the way '{way}' has no colour, expected a name that begins with one of: {', '.join(COLOURS)}")


def _grid(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure of so many charts side by side and below each other, each so many inches high."""
    rows = -(-count // COLUMNS)
    figure, grid = plt.subplots(rows, COLUMNS, figsize=(7.5 * COLUMNS, height * rows), squeeze=False)
    figure.set_layout_engine("constrained", h_pad=0.15, w_pad=0.15)
    for axis in grid.flat[count:]:
        axis.set_visible(False)
    return figure, list(grid.flat[:count])


def _is_far_off(name: str, row: Row, base: Row) -> bool:
    """Whether it is a floor so much faster than a model that the other bars would be too short to see."""
    return name.startswith("floor") and row.ratio(base).middle > FAR_OFF


def _label(row: Row, base: Row) -> str:
    return f"{row.ratio(base).middle:.2f} ({row.middle('per_second'):,.0f}/s)"


def _dress(axis: Axes, title: str, most: float) -> None:
    axis.axvline(1.0, color="#202124", linewidth=0.8, linestyle=":")
    axis.set_xlim(0, most * 1.35)
    axis.set_title(title, fontsize=11, fontweight="bold", loc="left")
    axis.margins(y=0.02)
    axis.invert_yaxis()
    axis.tick_params(labelsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=80)
    plt.close(figure)
