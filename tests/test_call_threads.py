"""The threads of `asyncio.to_thread`: what still runs there has a name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.engine.conftest import no_new_threads

from inferwire_server.call_threads import CallThreads
from inferwire_server.engine.fake_backend import Gate
from inferwire_server.errors import ServingError


class Device:
    """Answers when the gate opens."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def read(self) -> None:
        self._gate.pass_through(never)

    def fail(self) -> None:
        self._gate.pass_through(never)
        raise ValueError("nobody hears of it")


def never() -> bool:
    return False


@asynccontextmanager
async def opened() -> AsyncGenerator[tuple[CallThreads, Gate], None]:
    threads, gate = CallThreads(), Gate(is_open=False)
    asyncio.get_running_loop().set_default_executor(threads)
    try:
        yield threads, gate
    finally:
        gate.open()
        assert await threads.left(10.0) == []


async def test_nothing_is_left_of_what_has_ended() -> None:
    async with opened() as (threads, _):
        assert await asyncio.to_thread(sorted, [2, 1]) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        assert await threads.left(0.0) == []
        assert repr(threads) == "<CallThreads: 0 calls>"


async def test_calls_that_do_not_end_are_named() -> None:
    async with opened() as (threads, gate):
        read = Device(gate).read
        calls = [asyncio.ensure_future(asyncio.to_thread(call)) for call in (read, partial(read))]
        await asyncio.get_running_loop().run_in_executor(None, gate.wait_held, 2)
        for call in calls:
            call.cancel()
        assert await threads.left(0.0) == ["Device.read", "Device.read"]
        gate.open()
        assert await threads.left(10.0) == []


async def test_what_a_call_raises_that_nobody_waits_for_is_nobody_s() -> None:
    async with opened() as (threads, gate):
        call = asyncio.ensure_future(asyncio.to_thread(Device(gate).fail))
        await asyncio.to_thread(gate.wait_held, 1)
        call.cancel()
        gate.open()
        assert await threads.left(10.0) == []


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
