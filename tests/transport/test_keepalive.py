"""When a peer is asked whether it is there, and when it is given up."""

from __future__ import annotations

import pytest

from inferwire_server.transport.keepalive import Keepalive, PeerTimeouts, Verdict

WAIT, ASK, REFUSE, CUT_OFF = Verdict.WAIT, Verdict.ASK, Verdict.REFUSE, Verdict.CUT_OFF


def talking() -> Keepalive:
    """Make those of a peer that has said hello at 5."""
    keepalive = Keepalive(PeerTimeouts(), 0.0)
    keepalive.greeted(5.0)
    return keepalive


def test_a_hello_is_waited_for_however_much_of_it_comes() -> None:
    keepalive = Keepalive(PeerTimeouts(), 0.0)
    keepalive.heard(9.0)
    assert keepalive.judge(9.9, 0) is WAIT
    assert keepalive.judge(10.0, 0) is REFUSE


def test_a_silent_peer_is_asked_once_and_then_cut_off() -> None:
    keepalive = talking()
    assert [keepalive.judge(now, 0) for now in (34.9, 35.0, 35.1, 44.9, 45.0)] == [WAIT, ASK, WAIT, WAIT, CUT_OFF]


def test_one_that_answers_is_asked_again_after_as_long() -> None:
    keepalive = talking()
    assert keepalive.judge(35.0, 0) is ASK
    keepalive.heard(40.0)
    assert [keepalive.judge(now, 0) for now in (69.9, 70.0)] == [WAIT, ASK]


def test_one_that_takes_what_it_is_sent_is_alive() -> None:
    keepalive = talking()
    assert keepalive.judge(34.0, 1000) is WAIT
    assert keepalive.judge(35.0, 500) is WAIT
    assert keepalive.judge(64.0, 500) is WAIT
    assert keepalive.judge(65.0, 500) is ASK
    assert keepalive.judge(74.0, 400) is WAIT
    assert keepalive.judge(103.0, 400) is WAIT


def test_one_that_takes_nothing_is_not() -> None:
    keepalive = talking()
    assert [keepalive.judge(now, unsent) for now, unsent in ((35.0, 500), (45.0, 508))] == [ASK, CUT_OFF]


@pytest.mark.parametrize(("unsent", "last"), [(0, 2.0), (700, 10.0)])
def test_at_the_end_it_is_waited_for_until_it_closes(unsent: int, last: float) -> None:
    keepalive = talking()
    keepalive.ending(100.0)
    keepalive.heard(100.5)
    assert [keepalive.judge(100.0 + after, unsent) for after in (last - 0.1, last)] == [WAIT, CUT_OFF]


def test_at_the_end_too_it_may_take_its_time_for_what_it_takes() -> None:
    keepalive = talking()
    keepalive.ending(100.0)
    assert [keepalive.judge(now, unsent) for now, unsent in ((109.0, 900), (110.0, 800), (119.0, 100), (120.0, 0))] == [
        WAIT
    ] * 4
    assert keepalive.judge(122.0, 0) is CUT_OFF


def test_the_repr_says_what_is_waited_for() -> None:
    keepalive = talking()
    keepalive.judge(35.0, 0)
    assert repr(keepalive) == "<Keepalive: TALK, asked>"


def test_one_that_is_waited_for_anew_has_as_long_as_before() -> None:
    keepalive = talking()
    keepalive.wait_anew(35.0)
    assert [keepalive.judge(now, 0) for now in (64.9, 65.0, 74.9)] == [WAIT, ASK, WAIT]
    keepalive.wait_anew(75.0)
    assert [keepalive.judge(now, 0) for now in (84.9, 85.0)] == [WAIT, CUT_OFF]
