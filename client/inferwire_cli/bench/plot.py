"""The latencies of a load as a picture. Needs matplotlib, which no extra brings."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from inferwire_cli.bench.report import Measured
from inferwire_cli.files import check_target, write_whole
from inferwire_cli.terminal import MisuseError

SUFFIXES = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Refuse a plot that could not be drawn, before anything is measured.

    Raises:
        MisuseError: For a file of another kind, or if matplotlib is missing.
    """
    check_target("--plot", path, SUFFIXES)
    if "matplotlib" not in sys.modules and find_spec("matplotlib") is None:
        raise MisuseError("--plot needs the package 'matplotlib', which is missing: pip install matplotlib")


def save_plot(measured: Measured, path: Path) -> None:
    """Draw the histogram of the latencies with their median and their 99th percentile.

    Raises:
        CommandError: If the file cannot be written.
    """
    from matplotlib.figure import Figure

    latencies = measured.tally.samples.column("latency")
    figure: Any = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    most = float(np.percentile(latencies, 99.9))
    axes.hist(np.clip(latencies, None, most), bins=80, color="#4c72b0")
    for percentile, color in ((50, "#dd8452"), (99, "#c44e52")):
        value = float(np.percentile(latencies, percentile))
        axes.axvline(value, color=color, label=f"p{percentile} {value:.2f} ms")
    axes.set_xlabel("latency in ms; the last bar has all above the 99.9th percentile")
    axes.set_ylabel("inferences")
    axes.set_title(
        f"{measured.name}: {measured.per_second:,.0f} inferences/s, {measured.path}, {measured.concurrency} in flight"
    )
    axes.legend()
    write_whole("--plot", path, lambda file: figure.savefig(file, format=path.suffix.lower()[1:]))
