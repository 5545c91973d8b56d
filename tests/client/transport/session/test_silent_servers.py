"""Servers that are silent or have gone: asked, waited for, and lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
from tests.client.transport.session.peer import Peer, Place
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.session.socket_carrier import SocketCarrier
from inferwire.transport.timeouts import Timeouts
from inferwire_proto.frames import Kind


def test_a_server_that_goes_without_a_word_is_lost(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    peer.socket.close()

    with pytest.raises(ov.ServerUnavailable, match=r"was lost: (it ended without a word|Connection reset by peer)"):
        list(peer.carrier.receive())


def test_a_server_that_asks_is_answered(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    messages = peer.received()
    # One that asks while something is being sent has its answer in that: so it asks until nothing is.
    is_answered = threading.Event()

    def ask() -> None:
        while not is_answered.wait(0.01):
            peer.say(Kind.PING)
        peer.say(Kind.MESSAGE, b"one")

    asking, reading = (threading.Thread(target=each, daemon=True) for each in (ask, lambda: next(messages)))
    for thread in (asking, reading):
        thread.start()
    assert peer.next() == (Kind.PONG, b"")
    is_answered.set()
    for thread in (asking, reading):
        thread.join(LIMIT_S)


def test_a_silent_server_is_asked_and_then_waited_for(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer(keepalive_s=0.05)
    received = peer.received()
    answers: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=lambda: answers.put(bytes(next(received))), daemon=True).start()

    for _ in range(2):
        assert peer.next() == (Kind.PING, b"")
        peer.say(Kind.PONG)
    peer.say(Kind.MESSAGE, b"late")

    assert answers.get(timeout=LIMIT_S) == b"late"


def test_a_server_that_does_not_answer_is_lost(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer(keepalive_s=0.05, answer_s=0.05)

    with pytest.raises(ov.ServerUnavailable, match=r"was lost: it has not answered within 0\.05 s"):
        list(peer.carrier.receive())


@pytest.mark.parametrize("by_writer", [True, False], ids=["the writing thread", "another thread"])
def test_a_server_that_reads_nothing_is_lost(open_peer: Callable[..., Peer], by_writer: bool) -> None:
    peer = open_peer(keepalive_s=0.1, answer_s=0.1)
    message = (bytes(64 << 20),)
    if by_writer:
        peer.outgoing.put(message)
    else:
        peer.carrier.send(message, [])
    errors: SimpleQueue[str] = SimpleQueue()

    def receive() -> None:
        try:
            list(peer.carrier.receive())
        except ov.ServerUnavailable as error:
            errors.put(str(error))

    threading.Thread(target=receive, daemon=True).start()

    assert "was lost: " in errors.get(timeout=LIMIT_S)


def test_where_nobody_listens_nothing_is_carried(listen: Callable[[], Place]) -> None:
    place = listen()
    with place.listener:
        where = place.listener.getsockname()
    with pytest.raises(OSError, match="refused"):
        SocketCarrier(where, Timeouts(), place.tls and place.tls.client)


def test_most_of_the_time_that_a_server_may_be_silent_is_for_its_answer_to_come() -> None:
    """gRPC takes no other sign of life, and the answer comes behind what a slow network has yet to bring."""
    timeouts = Timeouts()
    assert timeouts.keepalive_s + timeouts.answer_s == 30, "what docs/python-client.md says"
    assert timeouts.answer_s >= 20
