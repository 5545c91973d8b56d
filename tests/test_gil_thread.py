"""The thread for calls that hold the GIL: they run one after the other, off the loop."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest
from tests.busy_gil_thread import occupied

from inferwire_server.engine.fake_backend import Gate
from inferwire_server.gil_thread import GilThread


async def test_calls_run_one_after_the_other_in_their_order_and_not_on_the_loop() -> None:
    began: list[int] = []

    def work(number: int) -> int:
        began.append(number)
        return threading.get_ident()

    async with GilThread() as thread:
        async with occupied(thread) as wait_for:
            calls = [asyncio.ensure_future(thread.run(work, number)) for number in range(20)]
            await wait_for(20)
            # Calls that wait, and those that release the GIL, have other threads.
            assert await asyncio.to_thread(sorted, [2, 1]) == [1, 2]
            assert began == []
            assert repr(thread) == "<GilThread: 21 calls>"
        threads = set(await asyncio.gather(*calls))
        assert repr(thread) == "<GilThread: 0 calls>"
    assert began == [*range(20)]
    assert len(threads - {threading.get_ident()}) == 1


async def test_an_error_is_its_caller_s_and_the_next_call_runs() -> None:
    async with GilThread() as thread:
        with pytest.raises(ZeroDivisionError):
            await thread.run(divmod, 1, 0)
        assert await thread.run(sorted, [1, 2], reverse=True) == [2, 1]


async def test_a_call_sees_its_caller_s_context() -> None:
    word = ContextVar("word", default="")
    async with GilThread() as thread:
        word.set("said")
        assert await thread.run(word.get) == "said"


async def test_a_call_whose_caller_goes_before_it_begins_does_not_run() -> None:
    ran: list[str] = []
    async with GilThread() as thread:
        async with occupied(thread) as wait_for:
            gone, stays = (asyncio.ensure_future(thread.run(ran.append, name)) for name in ("gone", "stays"))
            await wait_for(2)
            gone.cancel()
            await wait_for(1)
        await stays
    assert ran == ["stays"]
    assert gone.cancelled()


async def test_the_end_waits_for_the_call_that_has_begun_and_cancels_the_others() -> None:
    gate, ran = Gate(is_open=False), list[str]()

    def work() -> None:
        gate.pass_through(lambda: False)
        ran.append("begun")

    thread = GilThread()
    await thread.__aenter__()
    begun = asyncio.ensure_future(thread.run(work))
    await asyncio.to_thread(gate.wait_held, 1)
    queued = asyncio.ensure_future(thread.run(ran.append, "queued"))
    await asyncio.sleep(0)
    ending = asyncio.ensure_future(thread.__aexit__(None, None, None))
    with pytest.raises(asyncio.CancelledError):
        await queued
    assert not ending.done()
    gate.open()
    await ending
    await begun
    assert ran == ["begun"]
    with pytest.raises(RuntimeError, match="after shutdown"):
        await thread.run(int)
