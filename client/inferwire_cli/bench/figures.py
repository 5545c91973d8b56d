"""Figures of a load's samples: means, percentiles, a histogram. Computes only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferwire_cli.bench.load import PARTS, Samples
from inferwire_cli.infer.elements import Array

PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True, slots=True)
class Spread:
    """How one part of the time is spread, in milliseconds; the percentiles in the order of `PERCENTILES`."""

    mean: float
    percentiles: tuple[float, ...]
    most: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram: how many samples were from `least` up to below `most`, which is None for no bound."""

    least: float
    most: float | None
    count: int


def spreads(samples: Samples) -> dict[str, Spread | None]:
    """Give the spread of each part, None if answers do not tell it; no parts if nothing was answered."""
    return {part: _spread(samples.column(part)) for part in PARTS} if len(samples) else {}


def histogram(values: Array, bars: int = 12) -> list[Bar]:
    """Count values in bars of one width up to the 99th percentile; those above have a bar of their own."""
    least, most = float(values.min()), float(np.percentile(values, 99))
    if most <= least:
        return [Bar(least, None, len(values))]
    counts, edges = np.histogram(values, bins=bars, range=(least, most))
    found = [
        Bar(float(low), float(high), int(count)) for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]
    above = int((values > most).sum())
    return [*found, Bar(most, None, above)] if above else found


def _spread(values: Array) -> Spread | None:
    if np.isnan(values).any():
        return None
    percentiles: list[float] = np.percentile(values, PERCENTILES).tolist()
    return Spread(float(values.mean()), tuple(percentiles), float(values.max()))
