"""Measuring ways in turn, round after round, so that a slow moment of the machine affects them all."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.load import Figures, Way, measure


@dataclass(frozen=True, slots=True)
class Row:
    """A way's figures, round by round."""

    rounds: tuple[Figures, ...]

    def middle(self, name: str) -> float:
        """Give the median of a figure."""
        return median(getattr(figures, name) for figures in self.rounds)

    def server_cpu_beyond_us(self, inference: Row) -> Ratio:
        """Give what the server's CPU time of a request is beyond that of an inference in this process."""
        pairs = zip(self.rounds, inference.rounds, strict=True)
        beyond = [own.server_cpu_us - other.client_cpu_us for own, other in pairs]
        return Ratio(median(beyond), min(beyond), max(beyond))

    def ratio(self, base: Row, name: str = "per_second") -> Ratio:
        """Compare a figure with another row's, round by round."""
        pairs = zip(self.rounds, base.rounds, strict=True)
        ratios = [getattr(own, name) / getattr(other, name) for own, other in pairs]
        return Ratio(median(ratios), min(ratios), max(ratios))


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio, or another figure: the median of the rounds, and how far apart they were."""

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        digits = 2 if self.middle < 10 else 1 if self.middle < 100 else 0
        return f"{self.middle:.{digits}f} ({self.least:.{digits}f}-{self.most:.{digits}f})"


Rows = Mapping[str, Row]
"""Each way's figures by its name; the others are compared with the first."""


def ratios_to_first(rows: Rows) -> dict[str, Ratio]:
    """Divide each of the other ways' rates by the first's; the keys are `way / first`."""
    (first, base), *others = rows.items()
    return {f"{name} / {first}": row.ratio(base) for name, row in others}


def run(title: str, ways: Sequence[Way], rounds: int, seconds: float) -> Rows:
    """Measure the ways of a case, and show the progress."""
    found: dict[str, list[Figures]] = {way.name: [] for way in ways}
    for number in range(rounds):
        for way in ways:
            figures = measure(way, seconds)
            found[way.name].append(figures)
            sys.stderr.write(f"  {title}, round {number + 1}/{rounds}  {way.name:34} {figures.per_second:9,.0f}/s\n")
    return {name: Row(tuple(figures)) for name, figures in found.items()}
