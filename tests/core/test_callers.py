"""Callers, as turns tell them apart."""

from __future__ import annotations

from inferwire_server.core.callers import Caller, at_host, of_connection, of_session


def test_each_session_and_each_connection_is_a_caller_of_its_own_and_a_host_is_one() -> None:
    session, connection = of_session(), of_connection()
    assert len({session, of_session(), connection, of_connection(), at_host("a"), at_host("a"), at_host("b")}) == 6
    assert session == Caller("session", session.identity)


def test_a_caller_is_shown_by_its_kind_alone() -> None:
    callers = of_session(), of_connection(), at_host("127.0.0.1")
    assert list(map(repr, callers)) == ["<Caller: a session>", "<Caller: a connection>", "<Caller: a host>"]
