"""Whether callers are to be expected when a server ends, and what becomes of those that come while it does."""

from __future__ import annotations

import asyncio

import pytest

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.draining import Drain


def test_a_server_is_busy_while_calls_run_and_for_a_second_after() -> None:
    now = 5.0
    drain = Drain(clock=lambda: now)
    assert not drain.is_busy
    drain.enter()
    assert drain.is_busy
    now = 60.0
    drain.leave()
    now = 60.9
    assert drain.is_busy
    now = 61.0
    assert not drain.is_busy


async def test_who_is_held_is_refused_when_all_are_let_go() -> None:
    drain = Drain()
    assert not drain.holds
    with drain.holding():
        assert drain.holds
        held = asyncio.ensure_future(drain.refuse())
        await asyncio.sleep(0)
        assert not held.done()
    with pytest.raises(ServingError, match="the server is shutting down") as raised:
        await held
    assert raised.value.code is Code.SHUTTING_DOWN


async def test_who_comes_after_that_is_refused_at_once() -> None:
    drain = Drain()
    with drain.holding():
        pass
    assert drain.holds
    with pytest.raises(ServingError, match="the server is shutting down"):
        await drain.refuse()


async def test_a_call_that_begins_when_the_last_has_ended_is_not_waited_for() -> None:
    drain = Drain()
    drain.enter()
    draining = asyncio.ensure_future(drain.drain(10))
    await asyncio.sleep(0)
    drain.leave()
    drain.enter()
    assert await draining == 0
