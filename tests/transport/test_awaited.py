"""How long something is waited for, and what begins the waiting again."""

from __future__ import annotations

from inferwire_server.transport.awaited import Awaited


def test_one_thing_is_waited_for_until_the_limit() -> None:
    awaited = Awaited()
    assert [awaited.is_overdue("a", now, 10.0) for now in (5.0, 14.9, 15.0)] == [False, False, True]
    assert repr(awaited) == "<Awaited: since 5.0>"


def test_another_is_waited_for_as_long() -> None:
    awaited = Awaited()
    awaited.is_overdue("a", 0.0, 10.0)
    assert [awaited.is_overdue("b", now, 10.0) for now in (9.0, 18.9, 19.0)] == [False, False, True]


def test_a_while_of_waiting_for_nothing_does_not_count() -> None:
    awaited = Awaited()
    awaited.is_overdue("a", 0.0, 10.0)
    awaited.nothing()
    assert repr(awaited) == "<Awaited: nothing>"
    assert [awaited.is_overdue("a", now, 10.0) for now in (12.0, 21.0, 22.0)] == [False, False, True]
