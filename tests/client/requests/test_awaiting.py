"""What threads hand to tasks: every value arrives, a loop is woken once for many, and one that has gone is told so."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from weakref import ref

import pytest
from tests.client.interrupt import Interrupt
from tests.waiting import LIMIT_S

from inferwire.requests import awaiting
from inferwire.requests.awaiting import Handover


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often other threads wake it."""

    wakes = 0

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, **named: Any) -> asyncio.Handle:
        self.wakes += 1
        return super().call_soon_threadsafe(callback, *args, **named)


def run(main: Callable[[], Any], loop: asyncio.AbstractEventLoop | None = None) -> Any:
    with asyncio.Runner(loop_factory=None if loop is None else lambda: loop) as runner:
        return runner.run(asyncio.wait_for(main(), LIMIT_S))


def test_a_loop_is_woken_once_for_all_that_comes_until_it_has_a_turn() -> None:
    loop = CountingLoop()

    async def main() -> list[int]:
        handovers = [Handover[int]() for _ in range(100)]
        woken_before = loop.wakes
        # The loop has no turn meanwhile.
        assert all(handover.give(at) for at, handover in enumerate(handovers))
        assert loop.wakes == woken_before + 1
        return [await handover.wait() for handover in handovers]

    assert run(main, loop) == list(range(100))


def test_every_value_arrives_however_many_threads_give_at_once() -> None:
    async def main() -> int:
        arrived = 0
        for _ in range(300):
            handovers = [Handover[int]() for _ in range(16)]
            given = [beside.submit(handover.give, 1) for handover in handovers]
            arrived += sum([await handover.wait() for handover in handovers])
            assert all(each.result(LIMIT_S) for each in given)
        return arrived

    with ThreadPoolExecutor(4) as beside:
        assert run(main) == 300 * 16


def test_a_task_that_was_cancelled_keeps_no_other_from_its_value() -> None:
    async def main() -> int:
        first, second = Handover[int](), Handover[int]()
        waiting = asyncio.ensure_future(first.wait())
        await asyncio.sleep(0)
        assert first.give(1)
        assert second.give(2)
        waiting.cancel()
        return await second.wait()

    assert run(main) == 2


def test_every_value_arrives_though_a_signal_handler_raises_as_they_do() -> None:
    async def main(after: int) -> bool:
        raised: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context["exception"]))
        handovers = [Handover[int]() for _ in range(3)]
        waiting = [asyncio.ensure_future(handover.wait()) for handover in handovers]
        await asyncio.sleep(0)
        assert all(handover.give(at) for at, handover in enumerate(handovers))
        interrupt = Interrupt(TimeoutError, after, is_answered=True, within=(awaiting.__file__,))
        with interrupt:
            # The values arrive in this turn of the loop, and the tasks go on in the next.
            await asyncio.sleep(0)
        assert [type(error) for error in raised] == ([] if interrupt.is_due else [TimeoutError])
        assert await asyncio.gather(*waiting) == [0, 1, 2]
        return interrupt.is_due

    # Step 0 is the loop's call, which asyncio itself may lose.
    steps = next(after for after in itertools.count(1) if run(partial(main, after)))
    assert steps > 3


def test_who_has_left_is_given_nothing() -> None:
    async def main() -> bool:
        handover = Handover[int]()
        handover.leave()
        return handover.give(1)

    assert run(main) is False


def test_what_comes_just_as_a_loop_has_looked_wakes_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(deque[Any]):
        """What waits, of which the loop has just found that it is empty."""

        def __bool__(self) -> bool:
            is_any = len(self) > 0
            if not is_any and late:
                late.pop().give(2)
            return is_any

    monkeypatch.setattr(awaiting, "deque", Watched)
    late: list[Handover[int]] = []

    async def main() -> int:
        first, second = Handover[int](), Handover[int]()
        late.append(second)
        assert first.give(1)
        return await first.wait() + await second.wait()

    assert run(main) == 3


def test_a_loop_that_has_gone_is_told_of_and_not_kept() -> None:
    async def main() -> list[Handover[int]]:
        return [Handover[int](), Handover[int]()]

    loop = CountingLoop()
    early, late = loop.run_until_complete(main())
    assert early.give(1), "it may run on"
    loop.close()
    assert late.give(2) is False
    gone = ref(loop)
    del loop, early, late
    gc.collect()
    assert gone() is None
