"""A latch is an event that is set once."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from sys import getsizeof

from tests.client.interrupt import Interrupt
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S, wait_until

from inferwire.latch import Latch


def test_it_is_set_once_and_stays_so() -> None:
    latch = Latch()
    assert (latch.is_set(), latch.wait(0), repr(latch)) == (False, False, "<Latch: not set>")
    for _ in range(2):
        latch.set()
        assert (latch.is_set(), latch.wait(0), latch.wait(), repr(latch)) == (True, True, True, "<Latch: set>")


def test_it_lets_go_of_all_who_wait() -> None:
    latch = Latch()
    with DaemonThreads() as pool:
        waits = [pool.submit(latch.wait, timeout) for timeout in (LIMIT_S, LIMIT_S, None, None)]
        assert not any(wait.done() for wait in waits)
        latch.set()
        assert [wait.result(LIMIT_S) for wait in waits] == [True] * 4


def test_waits_that_gave_up_leave_nothing_behind() -> None:
    latch = Latch()
    sizes: set[int] = set()
    for _ in range(200):
        assert not latch.wait(0)
        sizes.add(sum(map(getsizeof, gc.get_referents(latch))))
    assert len(sizes) == 1
    latch.set()
    assert latch.wait(0)


def test_threads_that_set_it_at_once_set_it_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        for _ in range(200):
            latch = Latch()
            for done in [pool.submit(latch.set) for _ in range(4)]:
                done.result(LIMIT_S)
            assert latch.wait(0)


def test_where_its_setting_is_interrupted_it_can_be_set_again() -> None:
    steps = 0
    while True:
        latch = Latch()
        with DaemonThreads() as pool:
            waits = [pool.submit(latch.wait) for _ in range(2)]
            wait_until(lambda: len(latch.__dict__.get("_bells", ())) == 2)  # noqa: B023 - called here
            with suppress(KeyboardInterrupt), Interrupt(KeyboardInterrupt, steps, is_answered=True) as interrupt:
                latch.set()
            latch.set()
            assert [wait.result(LIMIT_S) for wait in waits] == [True] * 2
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 0
