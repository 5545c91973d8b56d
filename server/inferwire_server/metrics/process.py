"""What the system has of the process: its memory, its CPU time and its open files."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from inferwire_server.host.open_files import limit_that_is_reached

_OPEN, _MOST = "process_open_fds", "process_max_fds"


class ProcessMetrics(ProcessCollector):
    """Says how many files are open also when no more can be opened, while the library opens one to count them.

    An alert looks at these numbers: they are not to go just when the limit is reached.
    """

    def __init__(self, proc: str = "/proc") -> None:
        super().__init__(proc=proc, registry=None)

    def collect(self) -> Iterable[Metric]:
        """Give the numbers, as far as they can be had."""
        metrics = list(super().collect())
        if all(metric.name != _OPEN for metric in metrics) and (limit := limit_that_is_reached()) is not None:
            metrics.append(GaugeMetricFamily(_OPEN, "Number of open file descriptors.", limit))
            metrics.append(GaugeMetricFamily(_MOST, "Maximum number of open file descriptors.", limit))
        return metrics
