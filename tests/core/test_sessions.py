"""Leases: opened, resumed, left and run out."""

from __future__ import annotations

import sys
from itertools import count
from types import FrameType
from typing import Any

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.sessions import Sessions
from inferwire_server.errors import ServingError


def some_sessions(lease_s: float = 10.0) -> Sessions:
    ids = count(1)
    return Sessions(lambda: f"s{next(ids)}", lease_s)


def test_a_stream_without_an_id_opens_a_session_of_its_own() -> None:
    sessions = some_sessions()
    first, second = sessions.attach("", "alice"), sessions.attach("", "bob")
    assert (first.id, second.id) == ("s1", "s2")
    assert sessions.get("s1") is first
    assert len(sessions) == 2


def test_a_stream_with_an_id_resumes_the_session() -> None:
    sessions = some_sessions()
    session = sessions.attach("", "alice")
    sessions.detach(session, 5.0)
    assert sessions.attach("s1", "alice") is session
    assert sessions.next_expiry is None
    assert sessions.expire(1e9) == []


@pytest.mark.parametrize("resume", [True, False])
def test_an_unknown_session_says_how_to_open_one(resume: bool) -> None:
    sessions = some_sessions()
    with pytest.raises(ServingError) as caught:
        sessions.attach("gone", "alice") if resume else sessions.get("gone")
    assert caught.value.code is Code.SESSION_EXPIRED
    assert caught.value.message == (
        "session 'gone' is not open here: its connection ended too long ago, the server has restarted, "
        "or what balances calls between client and server has sent this one to another server"
    )
    assert len(sessions) == 0


def test_the_last_streams_end_starts_the_lease() -> None:
    sessions = some_sessions(lease_s=10.0)
    session = sessions.attach("", "alice")
    sessions.attach(session.id, "alice")
    sessions.detach(session, 1.0)
    assert sessions.next_expiry is None
    sessions.detach(session, 2.0)
    assert sessions.next_expiry == 12.0


def test_those_whose_lease_has_run_out_end_and_no_others() -> None:
    sessions = some_sessions(lease_s=10.0)
    first, second, third = (sessions.attach("", "alice") for _ in range(3))
    for session, now in ((second, 1.0), (third, 2.0), (first, 3.0)):
        sessions.detach(session, now)
    assert sessions.expire(12.5) == [second, third]
    assert sessions.next_expiry == 13.0
    assert sessions.get(first.id) is first


def test_that_one_of_very_many_has_left_takes_no_look_at_the_others() -> None:
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    def steps_beside(others: int) -> int:
        nonlocal steps
        sessions, steps = some_sessions(), 0
        for _ in range(others):
            sessions.detach(sessions.attach("", "other"), 1.0)
        session = sessions.attach("", "alice")
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            sessions.detach(session, 2.0)
            assert (sessions.next_expiry, sessions.expire(3.0)) == (11.0 if others else 12.0, [])
        finally:
            sys.settrace(before)
        return steps

    assert steps_beside(1000) == steps_beside(1)


def test_the_next_expiry_is_the_earliest() -> None:
    sessions = some_sessions(lease_s=10.0)
    first, second = sessions.attach("", "a"), sessions.attach("", "b")
    sessions.detach(second, 1.0)
    sessions.detach(first, 2.0)
    assert sessions.next_expiry == 11.0


def test_a_session_ends_with_its_lease_and_is_gone() -> None:
    sessions = some_sessions(lease_s=10.0)
    left, open_one = sessions.attach("", "a"), sessions.attach("", "b")
    sessions.detach(left, 0.0)
    assert sessions.expire(9.9) == []
    assert not left.has_ended
    assert sessions.expire(10.0) == [left]
    assert left.has_ended
    assert not open_one.has_ended
    with pytest.raises(ServingError, match="session 's1' is not open here"):
        sessions.get(left.id)
    assert sessions.expire(10.0) == []
    assert len(sessions) == 1


def test_it_says_how_long_the_lease_is() -> None:
    assert some_sessions(lease_s=7.0).lease_s == 7.0


def test_a_session_is_the_keys_that_it_was_last_opened_with() -> None:
    sessions = some_sessions()
    session = sessions.attach("", "alice", b"first")
    sessions.attach(session.id, "alice")
    assert session.key == b"first"
    sessions.attach(session.id, "alice", b"second")
    assert session.key == b"second"


def test_its_repr_tells_an_operator_what_it_is() -> None:
    sessions = some_sessions()
    session = sessions.attach("", "alice")
    assert repr(session) == "<Session s1 of 'alice': open>"
    sessions.detach(session, 0.0)
    assert repr(session) == "<Session s1 of 'alice': on lease>"
    sessions.expire(1e9)
    assert repr(session) == "<Session s1 of 'alice': ended>"
