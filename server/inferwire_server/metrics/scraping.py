"""How metrics are read: all numbers at one moment on the event loop, and their text on a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

from inferwire_server.gil_thread import GilThread
from inferwire_server.metrics.process import ProcessMetrics


class Metrics:
    """Reads its sources when it is asked.

    Each source takes its numbers when it is called, on the event loop, and so all sources at one moment. It gives an
    iterable that makes metrics of these numbers, which takes far longer and is done on a thread.
    """

    def __init__(self, gil_thread: GilThread, *sources: Callable[[], Iterable[Metric]]) -> None:
        self._gil_thread = gil_thread
        self._sources = [*sources]
        self._of_process = CollectorRegistry()
        self._of_process.register(ProcessMetrics())
        for collector in (PlatformCollector, GCCollector):
            collector(registry=self._of_process)

    def add(self, source: Callable[[], Iterable[Metric]]) -> None:
        """Read a further source from now on."""
        self._sources.append(source)

    def scrape(self) -> Scrape:
        """Take all numbers at once, except for those that the system has of the process."""
        return Scrape((*[source() for source in self._sources], self._of_process.collect()))

    async def text(self) -> bytes:
        """Write all metrics in the text format."""
        return await self._gil_thread.run(self.scrape().text)


@dataclass(frozen=True)
class Scrape:
    """What all metrics were at one moment. It can be iterated over once."""

    parts: Sequence[Iterable[Metric]]

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        return chain.from_iterable(self.parts)

    def text(self) -> bytes:
        """Write them in the text format."""
        return generate_latest(self)
