"""How long something is waited for, and what begins the waiting again."""

from __future__ import annotations

from inferwire_server.transport.stall_timer import StallTimer


def test_one_thing_is_waited_for_until_the_limit() -> None:
    timer = StallTimer()
    assert [timer.is_overdue("a", now, 10.0) for now in (5.0, 14.9, 15.0)] == [False, False, True]
    assert repr(timer) == "<StallTimer: since 5.0>"


def test_another_is_waited_for_as_long() -> None:
    timer = StallTimer()
    timer.is_overdue("a", 0.0, 10.0)
    assert [timer.is_overdue("b", now, 10.0) for now in (9.0, 18.9, 19.0)] == [False, False, True]


def test_a_while_of_waiting_for_nothing_does_not_count() -> None:
    timer = StallTimer()
    timer.is_overdue("a", 0.0, 10.0)
    timer.stop()
    assert repr(timer) == "<StallTimer: stopped>"
    assert [timer.is_overdue("a", now, 10.0) for now in (12.0, 21.0, 22.0)] == [False, False, True]
