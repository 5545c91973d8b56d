"""Lifetimes: what ends in its time, in the order in which it began, and what is stopped before."""

from __future__ import annotations

from math import inf

from inferwire_server.core.lifetimes import Lifetimes


def test_where_nothing_has_begun_nothing_ends() -> None:
    lives = Lifetimes[str](10.0)
    assert (len(lives), lives.next_end, lives.pop_ended(inf)) == (0, None, None)


def test_what_began_first_ends_first_in_its_time() -> None:
    lives = Lifetimes[str](10.0)
    lives.begin("a", 1.0)
    lives.begin("b", 2.0)
    assert (lives.next_end, lives.pop_ended(10.9)) == (11.0, None)
    assert (lives.pop_ended(11.0), lives.pop_ended(11.0), lives.next_end) == ("a", None, 12.0)
    assert (lives.pop_ended(inf), len(lives)) == ("b", 0)


def test_what_is_stopped_does_not_end_unless_it_begins_again() -> None:
    lives = Lifetimes[str](10.0)
    lives.begin("a", 1.0)
    lives.begin("b", 2.0)
    lives.stop("a")
    lives.stop("never begun")
    assert lives.next_end == 12.0
    lives.begin("a", 3.0)
    assert [lives.pop_ended(20.0), lives.pop_ended(20.0)] == ["b", "a"]
    assert repr(lives) == "<Lifetimes: 0 of 10 s>"
