"""What is counted for which model, and for how long the counts are kept."""

from __future__ import annotations

from functools import partial

import pytest

from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.engine.device import Device
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.engine.models import Model
from inferwire_server.gil_thread import GilThread
from inferwire_server.metrics.jobs import of_tallies
from inferwire_server.metrics.scraping import Metrics
from inferwire_server.repository.catalogue import Served
from inferwire_server.tallies import KEPT_S, Tallies


class Rig:
    """Tallies of the versions that are served."""

    def __init__(self) -> None:
        self.now = 0.0
        self.served = {Served("m", "1"), Served("m", "2")}
        self.tallies = Tallies(lambda: self.served, lambda: self.now)

    def model(self, version: str) -> Model:
        device = Device("CPU", Scheduler(1), self.tallies.of)
        return Model(FakeModel(echo_spec("m")), device, 2, ModelOptions("m"), version)

    def count(self, version: str, device: str = "CPU") -> None:
        self.tallies.of(device, self.model(version)).submit(1)

    def counted(self) -> dict[str, int]:
        found = dict.fromkeys((counted.version for counted, _ in self.tallies.items()), 0)
        for counted, tally in self.tallies.items():
            found[counted.version] += tally.submitted
        return found


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def test_models_of_one_version_are_counted_together_on_each_device(rig: Rig) -> None:
    for device in ("CPU", "CPU", "GPU"):
        rig.count("1", device)
    assert [tally.submitted for tally in rig.tallies.of_version("m", "1")] == [2, 1]
    rig.count("2", "GPU")
    assert [tally.submitted for tally in rig.tallies.of_version("m", "1")] == [2, 1]
    assert [tally.submitted for tally in rig.tallies.of_version("m", "2")] == [1]
    assert rig.tallies.of_version("m", "3") == []
    assert [(*counted, tally.submitted) for counted, tally in rig.tallies.items()] == [
        ("m", "1", "CPU", 2),
        ("m", "1", "GPU", 1),
        ("m", "2", "GPU", 1),
    ]
    assert repr(rig.tallies) == "<Tallies: 3>"


async def test_a_version_that_is_gone_is_counted_for_a_while_and_then_forgotten(rig: Rig) -> None:
    for version in ("1", "2", ""):
        rig.count(version)
    rig.served = {Served("m", "2")}
    assert rig.counted() == {"1": 1, "2": 1, "": 1}
    rig.now += KEPT_S
    assert rig.counted() == {"1": 1, "2": 1, "": 1}
    rig.now += KEPT_S
    assert b'version="1"' not in Metrics(GilThread(), partial(of_tallies, rig.tallies)).scrape().text()
    assert rig.counted() == {"2": 1, "": 1}


async def test_workers_forget_a_version_together_though_they_notice_one_after_the_other_that_it_is_gone() -> None:
    workers, interval_s = (Rig(), Rig()), 15.0
    for worker in workers:
        worker.count("1")

    def scraped() -> list[dict[str, int]]:
        for worker in workers:
            worker.now += interval_s
        return [worker.counted() for worker in workers]

    for worker in workers:
        worker.served = set()
        scraped()
    kept = [*iter(scraped, [{}, {}])]
    assert kept == [[{"1": 1}, {"1": 1}]] * len(kept)
    assert KEPT_S <= len(kept) * interval_s <= 2 * KEPT_S


async def test_a_version_that_comes_back_in_time_goes_on_where_it_was(rig: Rig) -> None:
    rig.count("1")
    rig.served = set()
    rig.counted()
    rig.now += KEPT_S
    rig.served = {Served("m", "1")}
    rig.counted()
    rig.now += KEPT_S
    rig.served = set()
    rig.count("1")
    assert rig.counted() == {"1": 2}


async def test_versions_that_come_and_go_are_forgotten_though_nobody_asks_for_them(rig: Rig) -> None:
    for version in range(100):
        rig.served = {Served("m", str(version))}
        rig.count(str(version))
        rig.now += KEPT_S / 3
    assert repr(rig.tallies) == "<Tallies: 5>"
