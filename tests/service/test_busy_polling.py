"""The event loop is kept awake for the next request where the one before came soon, and for no longer than it may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.service.echoing import a_model, an_inference
from tests.waiting import LIMIT_S, a_turn

from inferwire_server.from_settings import busy_poll_s
from inferwire_server.server import Composition
from inferwire_server.service.busy_polling import BusyPolling
from inferwire_server.settings import Settings

WINDOW_S = 0.5

Serving = Callable[..., AbstractAsyncContextManager[Composition]]


class Clock:
    """A time that passes only where the test says so.

    Attributes:
        asked: How often it was asked for.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now


class Rig:
    """Busy polling on the test's loop."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self.clock = Clock()
        self.polling = BusyPolling(window_s, self.clock)

    def work(self, gap_s: float) -> None:
        """Have work come after a while without any, and be done."""
        self.clock.now += gap_s
        self.polling.begin()
        self.polling.rest()

    async def looks(self) -> int:
        """Count how often the loop looks for what has come while nothing does."""
        before = self.clock.asked
        for _ in range(10):
            await a_turn()
        return self.clock.asked - before


async def test_before_the_first_request_it_sleeps() -> None:
    rig = Rig()
    assert await rig.looks() == 0
    rig.work(0)
    assert await rig.looks() == 0


async def test_where_one_request_came_soon_it_polls_for_the_next() -> None:
    rig = Rig()
    rig.work(0)
    rig.work(WINDOW_S * 0.9)
    assert await rig.looks() > 5
    rig.work(WINDOW_S * 0.9)
    assert await rig.looks() > 5
    rig.clock.now += WINDOW_S


async def test_it_polls_for_no_longer_than_the_window() -> None:
    rig = Rig()
    for _ in range(2):
        rig.work(0)
    rig.clock.now += WINDOW_S
    assert await rig.looks() == 1
    assert await rig.looks() == 0


async def test_it_counts_for_how_long_it_has_polled() -> None:
    rig = Rig()
    rig.work(0)
    assert rig.polling.polled_s == 0
    rig.work(0)
    await rig.looks()
    rig.work(WINDOW_S / 4)
    assert rig.polling.polled_s == pytest.approx(WINDOW_S / 4)
    rig.clock.now += WINDOW_S * 2
    await rig.looks()
    assert rig.polling.polled_s == pytest.approx(WINDOW_S * 1.25)
    rig.work(0)
    assert rig.polling.polled_s == pytest.approx(WINDOW_S * 1.25)


async def test_after_a_pause_it_sleeps_until_requests_come_soon_again() -> None:
    rig = Rig()
    rig.work(0)
    rig.work(0)
    rig.clock.now += WINDOW_S
    await rig.looks()
    rig.work(0)
    assert await rig.looks() == 0
    rig.work(0)
    assert await rig.looks() > 5
    rig.clock.now += WINDOW_S


async def test_while_there_is_work_it_does_not_poll() -> None:
    rig = Rig()
    rig.work(0)
    rig.work(0)
    rig.polling.begin()
    assert await rig.looks() == 1
    assert await rig.looks() == 0


async def test_however_often_work_ends_it_is_due_once() -> None:
    rig = Rig()
    for _ in range(5):
        rig.work(0)
    rig.clock.now += WINDOW_S
    assert await rig.looks() == 1


async def test_with_no_window_it_never_polls() -> None:
    rig = Rig(0)
    for _ in range(3):
        rig.work(0)
    assert await rig.looks() == 0


async def test_the_repr_says_whether_it_is_worthwhile() -> None:
    rig = Rig()
    assert repr(rig.polling) == "<BusyPolling for 500000 us: not now>"
    rig.work(0)
    rig.work(0)
    assert repr(rig.polling) == "<BusyPolling for 500000 us: worthwhile>"
    rig.clock.now += WINDOW_S


async def test_work_is_all_inferences_that_are_in_flight(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def saying(name: str) -> Callable[[BusyPolling], None]:
        return lambda polling: said.append(name)

    for name in ("begin", "rest"):
        monkeypatch.setattr(BusyPolling, name, saying(name))
    model = a_model(is_open=False)
    async with serving(model) as server:
        calls = [asyncio.ensure_future(server.services.inference.infer(an_inference())) for _ in range(3)]
        await asyncio.to_thread(model.gate.wait_held, 1)
        assert said == ["begin"]
        calls[0].cancel()
        model.gate.open()
        await asyncio.wait(calls, timeout=LIMIT_S)
        assert said == ["begin", "rest"]
        await server.services.inference.infer(an_inference())
        assert said == ["begin", "rest"] * 2


@pytest.mark.parametrize(
    ("settings", "cpus", "window_s"),
    [
        (Settings(), 1, 0),
        (Settings(), 1.9, 0),
        (Settings(), 2, 0.0005),
        (Settings(), 64, 0.0005),
        (Settings(busy_poll_us=0), 64, 0),
        (Settings(busy_poll_us=50), 1, 0.00005),
    ],
)
def test_by_default_it_is_for_processes_that_have_two_cores(settings: Settings, cpus: float, window_s: float) -> None:
    assert busy_poll_s(settings, cpus) == window_s
