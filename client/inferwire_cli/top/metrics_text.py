"""A reader of Prometheus' text format: counts by name and labels, and histograms. Knows no server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

Labels = frozenset[tuple[str, str]]

_LINE = re.compile(r"(\w+)(?:\{(.*)\})? ([+-]?(?:[0-9.]+(?:[eE][+-]?[0-9]+)?|Inf)|NaN)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values were at most as large as each bound, and the sum of all."""

    below: Mapping[float, float] = field(default_factory=dict[float, float])
    total: float = 0.0

    @property
    def count(self) -> float:
        """How many values there were."""
        return max(self.below.values(), default=0.0)

    @property
    def mean(self) -> float | None:
        """The mean; None if there were no values."""
        return self.total / self.count if self.count else None

    def since(self, earlier: Histogram) -> Histogram:
        """Give the values since an earlier state."""
        below = {bound: count - earlier.below.get(bound, 0.0) for bound, count in self.below.items()}
        return Histogram(below, self.total - earlier.total)

    def quantile(self, share: float) -> float | None:
        """Estimate a quantile between the bounds that it lies in; None if there were no values."""
        wanted, low, before = share * self.count, 0.0, 0.0
        if not self.count:
            return None
        for bound, count in sorted(self.below.items()):
            if count >= wanted:
                within = (wanted - before) / (count - before) if count > before else 1.0
                return low if bound == inf else low + (bound - low) * within
            low, before = bound, count
        return low


class Metrics:
    """The metrics of one scrape."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, dict[Labels, float]] = {}
        # Labels may have characters that Python takes for ends of lines.
        for line in text.split("\n"):
            found = None if line.startswith("#") else _LINE.fullmatch(line)
            if found:
                name, labels, value = found.groups()
                self._values.setdefault(name, {})[_labels(labels or "")] = float(value)

    def sum(self, name: str, labels: Mapping[str, str] | None = None) -> float:
        """Add up the samples that have these labels, whatever their others."""
        wanted = frozenset((labels or {}).items())
        return sum(value for has, value in self._values.get(name, {}).items() if wanted <= has)

    def histogram(self, name: str, labels: Mapping[str, str]) -> Histogram:
        """Add up the histograms that have these labels."""
        wanted, below = frozenset(labels.items()), dict[float, float]()
        for has, value in self._values.get(f"{name}_bucket", {}).items():
            if wanted <= has:
                bound = float(dict(has)["le"])
                below[bound] = below.get(bound, 0.0) + value
        return Histogram(below, self.sum(f"{name}_sum", labels))

    def groups(self, name: str, labels: Sequence[str]) -> list[tuple[str, ...]]:
        """List the combinations of values that these labels have, sorted."""
        return sorted({tuple(dict(has).get(label, "") for label in labels) for has in self._values.get(name, {})})


def _labels(text: str) -> Labels:
    return frozenset((name, _ESCAPED.sub(_unescape, value)) for name, value in _LABEL.findall(text))


def _unescape(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
