"""Whom the end of serving waits for."""

from __future__ import annotations

import asyncio

from inferwire_server.transport.draining import Drain


def test_it_is_busy_while_calls_run() -> None:
    drain = Drain()
    assert not drain.is_busy
    drain.enter()
    assert drain.is_busy
    drain.leave()
    assert not drain.is_busy


async def test_a_call_that_begins_when_the_last_has_ended_is_not_waited_for() -> None:
    drain = Drain()
    drain.enter()
    draining = asyncio.ensure_future(drain.drain(10))
    await asyncio.sleep(0)
    drain.leave()
    drain.enter()
    assert await draining == 0
