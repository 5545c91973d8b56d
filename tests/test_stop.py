"""Which signals ask a server to end, and which make it end at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Generator

import pytest
import uvloop
from structlog.testing import capture_logs
from tests.clock import Clock
from tests.waiting import LIMIT_S

from inferwire_server.stop import stop_on_signals


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on the loop that servers run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def ignored_hang_up() -> Generator[None, None, None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit codes with which the process would have ended at once."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


async def heard(number: signal.Signals) -> None:
    """Send a signal, SIGHUP or SIGINT, and wait until the loop has heard of it."""
    has_come = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, has_come.set)
    # The system delivers the pending signal with the lowest number first.
    os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGUSR1)
    async with asyncio.timeout(LIMIT_S):
        await has_come.wait()
    asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
async def test_a_signal_asks_for_the_end_and_the_log_names_it(number: signal.Signals) -> None:
    with capture_logs() as logs, stop_on_signals() as stop:
        os.kill(os.getpid(), number)
        async with asyncio.timeout(LIMIT_S):
            await stop.wait()
    assert [(entry["event"], entry["signal"]) for entry in logs] == [("stopping", number.name)]


async def test_a_terminal_that_hangs_up_more_than_once_does_not_insist(codes: list[int]) -> None:
    with capture_logs() as logs, stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(LIMIT_S):
            await stop.wait()
        await heard(signal.SIGHUP)
    assert len(logs) == 1
    assert not codes


async def test_a_signal_right_behind_the_first_does_not_insist(codes: list[int]) -> None:
    clock = Clock()
    with capture_logs() as logs, stop_on_signals(clock) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(LIMIT_S):
            await stop.wait()
        clock.now += 0.4
        await heard(signal.SIGINT)
    assert len(logs) == 1
    assert not codes


@pytest.mark.parametrize(("later_s", "insisting"), [(0.6, [signal.SIGINT]), (60.0, [signal.SIGHUP, signal.SIGINT])])
async def test_a_later_one_ends_the_process_at_once(
    later_s: float, insisting: list[signal.Signals], codes: list[int]
) -> None:
    clock = Clock()
    with stop_on_signals(clock) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(LIMIT_S):
            await stop.wait()
        clock.now += later_s
        for number in insisting:
            await heard(number)
    assert codes == [128 + signal.SIGINT]


@pytest.mark.usefixtures("ignored_hang_up")
async def test_a_server_that_nohup_has_started_does_not_hear_of_the_terminal() -> None:
    with stop_on_signals() as stop:
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert not stop.is_set()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


async def test_what_has_been_held_back_is_heard() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    signal.raise_signal(signal.SIGTERM)  # to this thread: others, which a program has not yet, would take it
    with capture_logs() as logs, stop_on_signals() as stop:
        async with asyncio.timeout(LIMIT_S):
            await stop.wait()
    assert [entry["signal"] for entry in logs] == ["SIGTERM"]


async def test_signals_do_afterwards_what_they_did_before() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with stop_on_signals():
            pass
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
