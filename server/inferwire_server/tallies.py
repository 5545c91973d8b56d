"""The tallies of all models, by what operators know a model by. Owns which of them there are, and for how long."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable
from time import monotonic
from typing import NamedTuple

from inferwire_server.core.scheduling.lane import ModelKey
from inferwire_server.core.scheduling.tally import Tally
from inferwire_server.engine.models import Model
from inferwire_server.repository.catalogue import Served

KEPT_S = 600.0
"""How long what was counted of a version stays at least once it is gone: whoever scrapes is to see the last of it.

It is forgotten at the end of the period of so long after the one in which it was seen to be gone. Workers, whose clock
is the same, so forget it together, though each sees it gone at another time; all but one that is gone just as a period
ends. Where one forgets before the other, the sum of their counters falls, which Prometheus takes for a new start: for
a rate of all that the other has counted.
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
        self._tallies: dict[Counted, Tally] = {}
        self._gone_since: dict[tuple[str, str], float] = {}

    def __repr__(self) -> str:
        return f"<Tallies: {len(self._tallies)}>"

    def of(self, device: str, model: ModelKey) -> Tally:
        """Give what a model's jobs are counted in on a device."""
        counted = Counted(*labels_of(model), device)
        if counted not in self._tallies:
            self._forget_gone()
            self._tallies[counted] = Tally()
        return self._tallies[counted]

    def of_version(self, name: str, version: str) -> list[Tally]:
        """Give what was counted of a served model: for each device that it has run on."""
        return [tally for counted, tally in self._tallies.items() if counted[:2] == (name, version)]

    def items(self) -> ItemsView[Counted, Tally]:
        """Give all that is counted."""
        self._forget_gone()
        return self._tallies.items()

    def _forget_gone(self) -> None:
        period, served = self._clock() // KEPT_S, {(each.name, each.version) for each in self._served()}
        gone = {counted[:2] for counted in self._tallies if counted.version} - served
        self._gone_since = {version: self._gone_since.get(version, period) for version in gone}
        for counted in [*self._tallies]:
            if period - self._gone_since.get(counted[:2], period) > 1:
                del self._tallies[counted]


def labels_of(model: ModelKey) -> tuple[str, str]:
    """Name a served model and its version; clients' own share one name, since there is no end of them."""
    return (model.name, model.version) if isinstance(model, Model) and model.version else ("(uploaded)", "")
