"""Threads that know their calls: how these are run, wait for one another, and end. What still runs has a name."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from weakref import ref

import pytest
from tests.engine.conftest import no_new_threads

from inferwire_server.call_threads import CallThreads
from inferwire_server.engine.fake_backend import Gate
from inferwire_server.errors import ServingError

AT_ONCE = 3
CALLER = ContextVar("CALLER", default="nobody")


class Device:
    """Answers when the gate opens."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def read(self) -> None:
        self._gate.pass_through(never)

    def fail(self) -> None:
        self._gate.pass_through(never)
        raise ValueError("nobody hears of it")


class Held:
    """Something that an error must not keep."""

    def fail(self) -> None:
        """Fail, in a frame that knows it."""
        raise LookupError


def never() -> bool:
    return False


@asynccontextmanager
async def opened(limit: int | None = None) -> AsyncGenerator[tuple[CallThreads, Gate], None]:
    threads, gate = CallThreads(limit), Gate(is_open=False)
    asyncio.get_running_loop().set_default_executor(threads)
    try:
        yield threads, gate
    finally:
        gate.open()
        assert await threads.close(10.0) == []


async def test_nothing_is_left_of_what_has_ended() -> None:
    async with opened() as (threads, _):
        assert await asyncio.to_thread(sorted, [2, 1]) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        assert await threads.close(0.0) == []
        assert repr(threads) == "<CallThreads: 0 calls>"


async def test_calls_that_do_not_end_are_named() -> None:
    async with opened() as (threads, gate):
        read = Device(gate).read
        calls = [asyncio.ensure_future(asyncio.to_thread(call)) for call in (read, partial(read))]
        await asyncio.get_running_loop().run_in_executor(None, gate.wait_held, 2)
        for call in calls:
            call.cancel()
        assert await threads.close(0.0) == ["Device.read", "Device.read"]
        gate.open()
        assert await threads.close(10.0) == []


async def test_what_a_call_raises_that_nobody_waits_for_is_nobody_s() -> None:
    async with opened() as (threads, gate):
        call = asyncio.ensure_future(asyncio.to_thread(Device(gate).fail))
        await asyncio.to_thread(gate.wait_held, 1)
        call.cancel()
        gate.open()
        assert await threads.close(10.0) == []


async def test_where_the_system_gives_no_thread_calls_wait_for_those_that_there_are() -> None:
    async with opened() as (threads, gate):
        held = asyncio.ensure_future(asyncio.to_thread(Device(gate).read))
        await asyncio.get_running_loop().run_in_executor(threads, gate.wait_held, 1)
        with no_new_threads():
            calls = [asyncio.ensure_future(asyncio.to_thread(sorted, [2, 1])) for _ in range(20)]
            await asyncio.sleep(0)
        gate.open()
        assert await asyncio.gather(*calls) == [[1, 2]] * 20
        await held


async def test_the_first_call_needs_no_thread_of_the_system_s() -> None:
    async with opened():
        with no_new_threads():
            assert await asyncio.to_thread(sorted, [2, 1]) == [1, 2]


def test_without_any_thread_there_are_none() -> None:
    with no_new_threads(), pytest.raises(ServingError, match="no thread could be started: can't start new thread"):
        CallThreads()


async def test_a_call_gives_what_it_gives_and_knows_who_asked() -> None:
    async with opened() as (threads, _):
        CALLER.set("the test")
        assert await threads.run(CALLER.get) == "the test"
        assert await threads.run(sorted, [1, 2], reverse=True) == [2, 1]
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 1, 0)


async def test_calls_beyond_the_limit_wait_for_a_thread() -> None:
    threads, gate, began = CallThreads(AT_ONCE), Gate(is_open=False), threading.Event()
    calls = [asyncio.ensure_future(threads.run(gate.pass_through, never)) for _ in range(AT_ONCE)]
    await asyncio.to_thread(gate.wait_held, AT_ONCE)
    waiting = asyncio.ensure_future(threads.run(began.set))
    await asyncio.sleep(0)
    assert repr(threads) == f"<CallThreads: {AT_ONCE + 1} calls>"
    assert not began.is_set()
    gate.open()
    await asyncio.gather(*calls, waiting)
    assert await threads.close(10.0) == []


async def test_a_call_that_nobody_waits_for_any_more_does_not_begin() -> None:
    threads, gate, began = CallThreads(1), Gate(is_open=False), threading.Event()
    held = asyncio.ensure_future(threads.run(gate.pass_through, never))
    await asyncio.to_thread(gate.wait_held, 1)
    given_up = asyncio.ensure_future(threads.run(began.set))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    gate.open()
    await held
    await threads.run(int)
    assert not began.is_set()
    assert await threads.close(10.0) == []


async def test_an_error_is_gone_once_it_is_taken() -> None:
    async with opened(1) as (threads, _):
        held = Held()
        watch = ref(held)
        gc.disable()
        try:
            with suppress(LookupError):
                await threads.run(held.fail)
            del held
            await threads.run(int)  # the thread has finished the call before
            assert watch() is None
        finally:
            gc.enable()


async def test_closing_waits_for_calls_that_have_begun_and_begins_no_more() -> None:
    threads, gate, began = CallThreads(1), Gate(is_open=False), threading.Event()
    held = asyncio.ensure_future(threads.run(gate.pass_through, never))
    await asyncio.to_thread(gate.wait_held, 1)
    waiting = asyncio.ensure_future(threads.run(began.set))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(threads.close(10.0))
    await asyncio.wait([waiting])
    assert not closing.done()
    gate.open()
    assert await closing == []
    await held
    assert waiting.cancelled()
    assert not began.is_set()
    with pytest.raises(RuntimeError, match="after shutdown"):
        await threads.run(int)


async def test_closing_takes_the_error_of_a_call_that_nobody_waits_for_any_more() -> None:
    threads, gate, told = CallThreads(), Gate(is_open=False), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, told_of: told.append(told_of))
    call = asyncio.ensure_future(threads.run(Device(gate).fail))
    await asyncio.to_thread(gate.wait_held, 1)
    call.cancel()
    await asyncio.wait([call])
    closing = asyncio.ensure_future(threads.close(10.0))
    await asyncio.sleep(0)
    gate.open()
    assert await closing == []
    gc.collect()
    assert told == []
