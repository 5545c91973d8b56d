"""The results of a run, as tables in Markdown."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

import openvino as ov
from tests.bench.rounds import Rows

PACKAGES = ("openvino", "grpcio", "uvicorn", "uvloop", "numpy")


def machine() -> str:
    """Say what runs, on what, how precisely, and how much else runs there now."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    packages = ", ".join(f"{name} {version(name).partition('-')[0]}" for name in PACKAGES)
    load = os.getloadavg()[0]
    # Processors of the same name compute in bf16 or f32, by their instructions: the same model takes one several times
    # as long.
    precision: ov.Type = ov.Core().get_property("CPU", "INFERENCE_PRECISION_HINT")
    return (
        f"{len(names)} cores of {processor} with a load of {load:.1f}, inferring in {precision.to_string()}, "
        f"Python {platform.python_version()} {_build()}, {packages}"
    )


def _build() -> str:
    """Say how Python was compiled, which decides on a fifth of its speed."""
    if sys.base_prefix == "/usr":
        return "of the distribution"
    given = str(sysconfig.get_config_var("CONFIG_ARGS"))
    return f"compiled {'with' if '--enable-optimizations' in given else 'without'} --enable-optimizations"


def table(title: str, rows: Rows, base: str = "in process") -> str:
    """Write a case's figures; ratios with the least and the most of the rounds."""
    first = next(iter(rows.values()))
    lines = [
        f"### {title}",
        "",
        f"| way | inferences/s | ratio to {base} | p50 ms | p99 ms | CPU us/request: client | server |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in rows.items():
        cells = (
            *(name, f"{row.middle('per_second'):,.0f}", str(row.ratio(first))),
            *(f"{row.middle('p50_ms'):.2f}", f"{row.middle('p99_ms'):.2f}"),
            *(f"{row.middle('client_cpu_us'):,.0f}", f"{row.middle('server_cpu_us'):,.0f}"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
