"""The gauges of what is limited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import GaugeMetricFamily

from inferwire_server.core.taken import Taken


class Room(NamedTuple):
    """The gauge of what is taken of something, and that of its limit."""

    used: GaugeMetricFamily
    most: GaugeMetricFamily

    @classmethod
    def of(cls, name: str, text: str, labels: Sequence[str] = ()) -> Room:
        """Name the gauges, without a value."""
        most = GaugeMetricFamily(f"{name}_limit", f"The most that {name} may be.", labels=labels)
        return cls(GaugeMetricFamily(name, text, labels=labels), most)

    def add(self, labels: Sequence[str], taken: Taken) -> None:
        """Give both gauges the value for these labels."""
        self.used.add_metric(labels, taken.byte_size)
        self.most.add_metric(labels, taken.most_bytes)
