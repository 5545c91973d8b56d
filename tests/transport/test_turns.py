"""When connections go on on which more has come, without connections: who is called, in which order, and how often."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from inferwire_server.transport.turns import Turns


class Loop:
    """A loop whose turns a test begins."""

    def __init__(self) -> None:
        self.called: list[Callable[[], None]] = []
        self.turns = Turns(self.called.append)
        self.went_on: list[str] = []

    def turn(self) -> list[str]:
        """Run what was called for this turn; give who went on in it."""
        called, self.called[:] = tuple(self.called), []
        for call in called:
            call()
        return self.told()

    def told(self) -> list[str]:
        """Give who has gone on since it was asked last."""
        told, self.went_on = self.went_on, []
        return told


class Busy:
    """A connection on which so much has come that it goes on so many times."""

    def __init__(self, loop: Loop, name: str, times: int) -> None:
        self._loop = loop
        self._name = name
        self._times = times

    def go_on(self) -> None:
        """Note it, and wait again where that was not all."""
        self._loop.went_on.append(self._name)
        self._times -= 1
        if self._times:
            self._loop.turns.wait(self)


def test_a_connection_goes_on_a_few_times_in_each_turn_and_the_first_time_at_once() -> None:
    loop = Loop()
    loop.turns.wait(Busy(loop, "a", 10))
    assert loop.told() == ["a"] * 4
    assert repr(loop.turns) == "<Turns: 1 connections wait>"
    assert [loop.turn() for _ in range(3)] == [["a"] * 4, ["a"] * 2, []]
    assert repr(loop.turns) == "<Turns: 0 connections wait>"


def test_connections_share_a_turn_and_who_has_waited_longest_is_first() -> None:
    loop = Loop()
    for name in "abcde":
        loop.turns.wait(Busy(loop, name, 6))
    assert loop.told() == ["a"] * 4
    assert loop.turn() == ["a", "b", "c", "d"]
    assert loop.turn() == ["e", "a", "b", "c"]


def test_the_loop_is_left_alone_once_nobody_waits() -> None:
    loop = Loop()
    loop.turns.wait(Busy(loop, "a", 5))
    assert len(loop.called) == 1
    loop.turn()
    loop.turn()
    assert loop.called == []
    loop.turns.wait(Busy(loop, "a", 5))
    assert loop.told() == ["a"] * 4


def test_who_has_gone_does_not_go_on() -> None:
    loop = Loop()
    first, second = Busy(loop, "a", 6), Busy(loop, "b", 1)
    loop.turns.wait(first)
    loop.turns.wait(second)
    loop.told()
    loop.turns.forget(first)
    loop.turns.forget(first)
    assert loop.turn() == ["b"]


def test_others_go_on_where_one_fails() -> None:
    class Broken:
        def go_on(self) -> None:
            raise ZeroDivisionError

    loop = Loop()
    waiting = deque([Busy(loop, "a", 5), Broken(), Busy(loop, "b", 1)])
    while waiting:
        loop.turns.wait(waiting.popleft())
    loop.told()
    with pytest.raises(ZeroDivisionError):
        loop.turn()
    assert loop.told() == ["a"]
    assert loop.turn() == ["b"]
