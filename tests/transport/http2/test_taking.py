"""Which peers of a server that closes are waited for."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from inferwire_server.transport.http2.taking import Taking


@dataclass(eq=False)
class Connection:
    """A connection on which so much is due."""

    due_bytes: int


@pytest.fixture
def taking() -> Taking:
    return Taking(last_s=1, stall_s=5)


def test_a_peer_to_which_nothing_is_due_is_not_waited_for(taking: Taking) -> None:
    assert not taking.goes_on(Connection(0), 10)
    assert repr(taking) == "<Taking: 0 connections>"


def test_a_peer_is_waited_for_as_long_as_it_takes_something_now_and_again(taking: Taking) -> None:
    slow = Connection(100)
    for now in range(10, 30, 4):
        assert taking.goes_on(slow, now)
        assert taking.goes_on(slow, now + 3)
        slow.due_bytes -= 1
    assert repr(taking) == "<Taking: 1 connections>"


def test_a_peer_that_takes_nothing_is_given_up_and_no_other_with_it(taking: Taking) -> None:
    silent, other = Connection(100), Connection(100)
    assert taking.goes_on(silent, 10)
    assert taking.goes_on(other, 14)
    assert not taking.goes_on(silent, 15)
    assert taking.goes_on(other, 15)


def test_what_is_said_besides_is_not_taken_for_something_that_is_taken(taking: Taking) -> None:
    silent = Connection(100)
    for now in range(10, 15):
        assert taking.goes_on(silent, now)
        silent.due_bytes += 17
    assert not taking.goes_on(silent, 15)


def test_a_peer_that_has_taken_all_has_a_moment_to_go(taking: Taking) -> None:
    peer = Connection(100)
    assert taking.goes_on(peer, 10)
    peer.due_bytes = 0
    assert taking.goes_on(peer, 14)
    assert taking.goes_on(peer, 14.9)
    assert not taking.goes_on(peer, 15)
