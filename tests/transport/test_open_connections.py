"""The connections of a port that are open."""

from __future__ import annotations

import asyncio

from tests.waiting import a_turn

from inferwire_server.transport.open_connections import OpenConnections


async def test_whoever_waits_waits_until_the_last_has_gone() -> None:
    connections = OpenConnections[str]()
    for name in ("a", "b"):
        connections.add(name)
    waiting = asyncio.ensure_future(connections.wait_until_gone())
    await a_turn()
    connections.discard("a")
    await a_turn()
    assert (waiting.done(), len(connections)) == (False, 1)
    connections.discard("b")
    await waiting


async def test_nobody_waits_where_there_is_none_though_there_were() -> None:
    connections = OpenConnections[str]()
    connections.add("a")
    connections.discard("a")
    await connections.wait_until_gone()


async def test_they_may_go_while_one_goes_through_them() -> None:
    connections = OpenConnections[str]()
    for name in ("a", "b"):
        connections.add(name)
    for name in connections:
        connections.discard(name)
    assert repr(connections) == "<OpenConnections: 0>"
