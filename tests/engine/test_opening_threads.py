"""The threads that models are opened on: few, and what they were at is told to whoever asked."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from weakref import ref

import pytest
from structlog.testing import capture_logs
from tests.engine.conftest import no_new_threads

from inferwire_proto.errors import Code
from inferwire_server.engine.fake_backend import Gate
from inferwire_server.engine.opening_threads import OpeningThreads
from inferwire_server.errors import ServingError

AT_ONCE = 3
CALLER = ContextVar("CALLER", default="nobody")


@asynccontextmanager
async def opened() -> AsyncGenerator[tuple[OpeningThreads, Gate], None]:
    threads, gate = OpeningThreads("open", AT_ONCE), Gate(is_open=False)
    try:
        yield threads, gate
    finally:
        gate.open()
        assert await threads.close(10.0) == 0


def never() -> bool:
    return False


async def test_a_call_gives_what_it_gives_and_knows_who_asked() -> None:
    async with opened() as (threads, _):
        CALLER.set("the test")
        assert await threads.run(CALLER.get) == "the test"
        assert await threads.run(sorted, [1, 2], reverse=True) == [2, 1]
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 1, 0)


async def test_a_call_that_no_thread_can_run_fails_as_calls_do() -> None:
    threads = OpeningThreads("compile", AT_ONCE)
    with no_new_threads(), capture_logs() as logged:
        with pytest.raises(
            ServingError, match=r"^no thread could be started to compile a model: can't start new"
        ) as caught:
            await threads.run(never)
        assert caught.value.code is Code.INTERNAL
    assert [(entry["event"], entry["threads"]) for entry in logged] == [("a model has no thread", "compile")]
    assert await threads.run(never) is False
    assert await threads.close(10.0) == 0


async def test_calls_beyond_the_limit_wait_for_a_thread() -> None:
    async with opened() as (threads, gate):
        calls = [asyncio.ensure_future(threads.run(gate.pass_through, never)) for _ in range(AT_ONCE + 2)]
        await asyncio.to_thread(gate.wait_held, AT_ONCE)
        assert repr(threads) == f"<OpeningThreads: <ThreadPool open: {AT_ONCE + 2}/{AT_ONCE} busy>>"
        gate.open()
        await asyncio.gather(*calls)


async def test_a_call_that_nobody_waits_for_any_more_does_not_begin() -> None:
    async with opened() as (threads, gate):
        calls = [asyncio.ensure_future(threads.run(gate.pass_through, never)) for _ in range(AT_ONCE)]
        await asyncio.to_thread(gate.wait_held, AT_ONCE)
        began = threading.Event()
        given_up = asyncio.ensure_future(threads.run(began.set))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        gate.open()
        await asyncio.gather(*calls)
        await threads.run(int)
        assert not began.is_set()


class Held:
    """Something that an error must not keep."""

    def fail(self) -> None:
        """Fail, in a frame that knows it."""
        raise LookupError


async def test_an_error_is_gone_once_it_is_taken() -> None:
    async with opened() as (threads, _):
        held = Held()
        watch = ref(held)
        gc.disable()
        try:
            with suppress(LookupError):
                await threads.run(held.fail)
            del held
            await threads.run(int)  # the thread is done with the call before
            assert watch() is None
        finally:
            gc.enable()


async def test_closing_waits_for_calls_that_have_begun_and_begins_no_more() -> None:
    threads, gate, began = OpeningThreads("open", AT_ONCE), Gate(is_open=False), threading.Event()
    calls = [asyncio.ensure_future(threads.run(gate.pass_through, never)) for _ in range(AT_ONCE)]
    await asyncio.to_thread(gate.wait_held, AT_ONCE)
    waiting = asyncio.ensure_future(threads.run(began.set))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(threads.close(10.0))
    await asyncio.wait([waiting])
    assert not closing.done()
    gate.open()
    assert await closing == 0
    await asyncio.gather(*calls)
    assert waiting.cancelled()
    assert not began.is_set()


async def test_closing_counts_the_calls_that_it_does_not_wait_for() -> None:
    threads, gate = OpeningThreads("open", AT_ONCE), Gate(is_open=False)
    held = asyncio.ensure_future(threads.run(gate.pass_through, never))
    await asyncio.to_thread(gate.wait_held, 1)
    assert await threads.close(0.0) == 1
    gate.open()
    await held


async def test_closing_takes_the_error_of_a_call_that_nobody_waits_for_any_more() -> None:
    threads, gate, told = OpeningThreads("open", AT_ONCE), Gate(is_open=False), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, told_of: told.append(told_of))

    def fail() -> None:
        gate.pass_through(never)
        raise LookupError

    call = asyncio.ensure_future(threads.run(fail))
    await asyncio.to_thread(gate.wait_held, 1)
    call.cancel()
    await asyncio.wait([call])
    closing = asyncio.ensure_future(threads.close(10.0))
    await asyncio.sleep(0)
    gate.open()
    assert await closing == 0
    gc.collect()
    assert told == []
