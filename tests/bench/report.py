"""What a run found, as a table for the README and as a bar chart."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import matplotlib as mpl
from tests.bench.load import Figures

mpl.use("Agg")

from matplotlib import pyplot as plt

Rows = Mapping[str, Figures]
"""Each way's figures; the first row is what the others are compared with."""

COLOURS = ("#9aa0a6", "#5f6368", "#1a73e8", "#174ea6", "#e8710a", "#188038")


def machine() -> str:
    """Say what ran, and on what."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    packages = ", ".join(f"{name} {version(name).partition('-')[0]}" for name in ("openvino", "grpcio", "uvicorn"))
    return f"{len(names)} cores of {processor}, Python {platform.python_version()}, {packages}"


def table(title: str, rows: Rows) -> str:
    """Write a network's figures in Markdown."""
    base = next(iter(rows.values()))
    lines = [
        f"**{title}**",
        "",
        "| way | inferences/s | ratio to in process | p50 ms | p99 ms | CPU us/request (client + server) |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in rows.items():
        cpu = f"{row.client_cpu_us:,.0f} + {row.server_cpu_us:,.0f}"
        ratio = row.per_second / base.per_second
        lines.append(f"| {name} | {row.per_second:,.0f} | {ratio:.2f} | {row.p50_ms:.2f} | {row.p99_ms:.2f} | {cpu} |")
    return "\n".join(lines)


def chart(results: Mapping[str, Rows], path: Path) -> None:
    """Draw each network's ratios to in process as bars."""
    figure, axes = plt.subplots(1, len(results), figsize=(6 * len(results), 3.8), layout="constrained")
    for axis, (title, rows) in zip([axes] if len(results) == 1 else axes, results.items(), strict=True):
        base = next(iter(rows.values())).per_second
        names = list(rows)
        ratios = [row.per_second / base for row in rows.values()]
        bars = axis.barh(names, ratios, color=COLOURS[: len(names)])
        axis.bar_label(bars, [f" {row.per_second / base:.2f}  ({row.per_second:,.0f}/s)" for row in rows.values()])
        axis.axvline(1.0, color="#202124", linewidth=0.8, linestyle=":")
        axis.set_xlim(0, max(ratios) * 1.45)
        axis.set_title(title)
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("inferences per second, as a ratio to openvino's AsyncInferQueue in process")
    figure.savefig(path, dpi=120)
    plt.close(figure)
