"""The tallies of all models, by the name and version that operators know. Owns which there are, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple

from inferwire_server.core.scheduling.lane import ModelKey
from inferwire_server.core.scheduling.tally import Tally
from inferwire_server.engine.models import Model
from inferwire_server.repository.catalogue import Served

KEPT_S = 600.0
"""How long what was counted of a version that is gone is kept at least, so that a scrape sees the last of it.

Time is divided into periods of this length. What was counted is forgotten at the end of the period that follows the one
in which the version was seen to be gone. All workers have the same clock, so they forget it together, although each
sees the version gone at another time; only for one that goes just as a period ends they may not. If one worker forgets
before another, the sum of their counters falls. Prometheus takes that for a restart, and so counts all that the other
worker has counted as if it were new.
"""


class Counted(NamedTuple):
    """What is counted together."""

    model: str
    version: str
    device: str


class Tallies:
    """Gives each model's tally on each device, and forgets those of versions that are not `served` any more.

    Models of one name and version are counted together.
    """

    def __init__(
        self, served: Callable[[], Iterable[Served]] = lambda: (), clock: Callable[[], float] = monotonic
    ) -> None:
        self._served = served
        self._clock = clock
        # By name and version, then by device: statistics ask for each version of many.
        self._tallies: dict[tuple[str, str], dict[str, Tally]] = {}
        self._gone_since: dict[tuple[str, str], float] = {}

    def __repr__(self) -> str:
        return f"<Tallies: {sum(map(len, self._tallies.values()))}>"

    def of(self, device: str, model: ModelKey) -> Tally:
        """Give the tally in which a model's jobs on a device are counted."""
        version = labels_of(model)
        if device not in self._tallies.get(version, ()):
            self._forget_gone()
            self._tallies.setdefault(version, {})[device] = Tally()
        return self._tallies[version][device]

    def of_version(self, name: str, version: str) -> list[Tally]:
        """Give what was counted of a served model: for each device that it has run on."""
        return [*self._tallies.get((name, version), {}).values()]

    def items(self) -> list[tuple[Counted, Tally]]:
        """Give all that is counted."""
        self._forget_gone()
        return [
            (Counted(*version, device), tally)
            for version, tallies in self._tallies.items()
            for device, tally in tallies.items()
        ]

    def _forget_gone(self) -> None:
        period, served = self._clock() // KEPT_S, {(each.name, each.version) for each in self._served()}
        gone = {(name, version) for name, version in self._tallies if version} - served
        self._gone_since = {version: self._gone_since.get(version, period) for version in gone}
        for version, since in self._gone_since.items():
            if period - since > 1:
                del self._tallies[version]


def labels_of(model: ModelKey) -> tuple[str, str]:
    """Name a served model and its version. Clients' own models share one name, because there may be any number."""
    return (model.name, model.version) if isinstance(model, Model) and model.version else ("(uploaded)", "")
