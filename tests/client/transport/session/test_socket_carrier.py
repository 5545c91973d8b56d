"""A socket of its own as what carries messages, plain or with TLS, against a peer that the test holds."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from tests.client.interrupt import Interrupt
from tests.client.transport.session.peer import END, Peer, Place
from tests.low_water import be_from_elsewhere, mark_beyond
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire.transport.session.carriers import Pieces
from inferwire.transport.session.socket_carrier import MOST_JOINED
from inferwire_proto import frames
from inferwire_proto.errors import Code
from inferwire_proto.frames import Kind, MalformedFrame
from inferwire_proto.host.low_water import LEAST_BYTES, MOST_BYTES
from inferwire_proto.inferwire.v1 import types_pb2


@pytest.mark.parametrize(
    "pieces",
    [
        (b"one",),
        (b"a", memoryview(b"bc"), b""),
        (bytes(MOST_JOINED), b"and more"),
        (b"head", memoryview(bytes(range(256)) * 20_000), b"between", memoryview(bytes(3_000_000))),
        tuple(b"%6d" % at * 20 for at in range(5000)),
    ],
    ids=["one piece", "small pieces", "just too large to join", "large pieces", "more pieces than a system takes"],
)
def test_a_message_arrives_as_a_frame_whatever_its_pieces(open_peer: Callable[..., Peer], pieces: Pieces) -> None:
    peer = open_peer()
    peer.outgoing.put(pieces)
    assert peer.next() == (Kind.MESSAGE, b"".join(pieces))
    peer.carrier.send(pieces, [])
    assert peer.next() == (Kind.MESSAGE, b"".join(pieces))


def test_threads_that_send_at_once_do_not_mix_their_messages(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    messages = [bytes([number]) * (MOST_JOINED * 3) for number in range(8)]
    halves = [(memoryview(each)[:7], memoryview(each)[7:]) for each in messages]
    threads = [threading.Thread(target=peer.carrier.send, args=(each, []), daemon=True) for each in halves]
    for thread in threads:
        thread.start()
    for pieces in halves:
        peer.outgoing.put(pieces)

    got = sorted(peer.next()[1] for _ in range(16))

    assert got == sorted(messages * 2)


def test_a_thread_that_sends_waits_for_no_room_and_what_is_left_goes_before_all_else(
    open_peer: Callable[..., Peer],
) -> None:
    peer = open_peer()
    large = bytes(range(256)) * (64 << 12)

    def send() -> None:
        peer.carrier.send((large,), [])
        peer.carrier.send((b"the next",), [])

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    sending.join(LIMIT_S)
    assert not sending.is_alive(), "it waits for room"
    peer.outgoing.put((b"the writing thread's",))

    assert [peer.next()[1] for _ in range(3)] == [large, b"the next", b"the writing thread's"]
    peer.carrier.send((b"and with room again",), [])
    assert peer.next() == (Kind.MESSAGE, b"and with room again")


def test_a_message_for_which_there_is_room_again_goes_behind_what_is_left(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    assert peer.is_idle.wait(LIMIT_S)
    peer.may_write.clear()
    large = bytes(range(256)) * (64 << 12)
    peer.carrier.send((large,), [])
    peer.make_room()
    peer.carrier.send((b"the next",), [])
    peer.may_write.set()

    assert [peer.next()[1] for _ in range(2)] == [large, b"the next"]


def test_what_another_thread_sends_goes_behind_what_the_writing_thread_is_sending(
    open_peer: Callable[..., Peer],
) -> None:
    peer = open_peer()
    large = bytes(range(256)) * (16 << 12)
    for at in range(24):
        peer.outgoing.put((large,))
        # Once some of it is read there may be room for what is small, of which the writing thread is not told yet.
        for _ in range(1 + at % 3):
            peer.read_some()
        peer.carrier.send((b"small",), [])

        assert [peer.next()[1], peer.next()[1]] == [large, b"small"]


def test_a_message_that_finds_no_room_at_all_waits_for_it(open_peer: Callable[..., Peer]) -> None:
    """A Unix socket takes all of a small one or nothing."""
    peer = open_peer()
    assert peer.is_idle.wait(LIMIT_S)
    sent: list[bytes] = []
    while not peer.is_woken.is_set() and len(sent) < 1 << 16:
        sent.append(b"%4096d" % len(sent))
        peer.carrier.send((sent[-1],), [])

    assert peer.is_woken.is_set(), "it is sent or lost"
    assert [peer.next()[1] for _ in sent] == sent


def test_what_comes_is_given_until_the_server_ends_it(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    large = bytes(range(256)) * 1000

    def say_all() -> None:
        peer.say(Kind.MESSAGE, b"one")
        peer.say(Kind.MESSAGE, large)
        peer.say(Kind.END)

    threading.Thread(target=say_all, daemon=True).start()

    assert [bytes(each) for each in peer.received()] == [b"one", large]


def test_a_part_of_a_message_holds_up_nobody(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    received = peer.carrier.receive()
    message = frames.frame(Kind.MESSAGE, b"whole")
    peer.socket.sendall(message[:-1])
    assert next(received) is None
    peer.socket.sendall(message[-1:])
    assert next(filter(None, received)) == b"whole"
    received.close()


def test_when_all_is_said_the_server_hears_it_and_then_ends_it(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    peer.outgoing.put((b"the last",))
    peer.outgoing.put(END)
    assert [peer.next(), peer.next()] == [(Kind.MESSAGE, b"the last"), (Kind.END, b"")]
    peer.say(Kind.MESSAGE, b"its answer")
    peer.say(Kind.END)

    assert list(peer.received()) == [b"its answer"]
    assert peer.socket.recv(1) == b"", "the carrier is to close its socket"


def test_who_receives_sleeps_until_a_good_part_of_a_large_message_has_come(
    open_peer: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    be_from_elsewhere(monkeypatch)
    peer = open_peer()
    content = bytes(range(256)) * 2000
    framed = frames.header(Kind.MESSAGE, len(content)) + content
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=lambda: messages.put(bytes(next(peer.received()))), daemon=True).start()
    peer.socket.sendall(framed[:100_000])
    if peer.socket.family == socket.AF_INET:
        own_name = peer.socket.getsockname()
        wait_until(lambda: mark_beyond(own_name) == MOST_BYTES)
    peer.socket.sendall(framed[100_000 : -LEAST_BYTES - 1])
    peer.socket.sendall(framed[-LEAST_BYTES - 1 :])
    assert messages.get(timeout=LIMIT_S) == content


def test_the_error_that_ends_it_is_raised(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    error = types_pb2.Error(code=types_pb2.ErrorCode.ValueType(Code.SHUTTING_DOWN.wire), message="the server goes")
    peer.say(Kind.END, error.SerializeToString())

    with pytest.raises(ov.InferwireError, match="the server goes"):
        list(peer.carrier.receive())


def test_what_is_no_frame_cannot_be_read(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    peer.socket.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with pytest.raises(MalformedFrame, match="HTTP"):
        list(peer.carrier.receive())


def test_what_is_no_error_cannot_be_read(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    peer.say(Kind.END, b"\xff\xff")

    with pytest.raises(MalformedFrame, match="expected an error"):
        list(peer.carrier.receive())


def test_what_comes_is_read_while_a_message_waits_to_be_sent(open_peer: Callable[..., Peer]) -> None:
    """As where a server reads nothing more until its results are: with questions in between, or silence."""
    peer = open_peer(keepalive_s=0.05)
    peer.outgoing.put((bytes(64 << 20),))
    peer.wait_for_bytes()  # it is being sent, and there is no room for all of it
    received = peer.received()
    answers: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=lambda: [answers.put(bytes(next(received))) for _ in range(2)], daemon=True).start()
    peer.say(Kind.PING)
    peer.say(Kind.MESSAGE, b"one")
    assert answers.get(timeout=LIMIT_S) == b"one"

    # Silence for longer than it would ask after.
    time.sleep(0.2)
    peer.say(Kind.MESSAGE, b"two")

    assert answers.get(timeout=LIMIT_S) == b"two"
    assert peer.next() == (Kind.MESSAGE, bytes(64 << 20))


def test_a_cancel_ends_whoever_receives_and_whoever_sends(open_peer: Callable[..., Peer]) -> None:
    before = set(threading.enumerate())
    peer = open_peer()
    (sending,) = set(threading.enumerate()) - before
    errors: SimpleQueue[BaseException] = SimpleQueue()

    def receive() -> None:
        try:
            list(peer.carrier.receive())
        except ov.InferwireError as error:
            errors.put(error)

    peer.outgoing.put((bytes(64 << 20),))
    peer.wait_for_bytes()  # it is being sent, and there is no room for all of it
    peer.outgoing.put(END)
    receiving = threading.Thread(target=receive, daemon=True)
    receiving.start()
    peer.carrier.cancel()
    for thread in (sending, receiving):
        thread.join(LIMIT_S)

    assert not sending.is_alive()
    assert isinstance(errors.get_nowait(), ov.ServerUnavailable)
    peer.carrier.send((b"nobody reads it",), [])


def test_where_a_message_cannot_be_made_whoever_receives_hears_of_it(
    listen: Callable[[], Place], caplog: pytest.LogCaptureFixture
) -> None:
    def messages() -> Iterator[Pieces]:
        yield (b"one",)
        raise MemoryError("no room")

    carrier, peer = listen().connected()
    with peer:
        carrier.start(messages(), lambda: None)
        with pytest.raises(ov.ServerUnavailable, match="it ended without a word"):
            list(carrier.receive())
    assert "MemoryError: no room" in caplog.text


def _interrupted_sends(
    open_peer: Callable[..., Peer],
    message: bytes,
    get_ready: Callable[[Peer], object],
    error: type[BaseException] = KeyboardInterrupt,
) -> Iterator[tuple[Peer, list[int]]]:
    """Send a message on new connections, interrupted a step later each time, and then another; give what is told."""
    steps, outcomes = 0, set[bool]()
    while True:
        peer, went = open_peer(), list[int]()
        get_ready(peer)
        interrupt, is_told = Interrupt(error, steps, is_answered=True), False
        try:
            with interrupt:
                peer.carrier.send((message,), went)
        except error:
            is_told = True
        if interrupt.is_due:
            break
        assert is_told
        outcomes.add(bool(went))
        peer.carrier.send((b"the next",), [])
        # As whoever is interrupted wakes the writing thread by what it cancels.
        peer.outgoing.put(())
        yield peer, went
        steps += 1
    assert outcomes == {False, True}


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("message", [b"small", bytes(range(256)) * (64 << 10)], ids=["small", "large"])
def test_who_is_interrupted_as_it_sends_has_sent_a_whole_message_or_nothing_or_it_ends(
    open_peer: Callable[..., Peer], message: bytes, error: type[BaseException]
) -> None:
    def get_ready(peer: Peer) -> None:
        assert peer.is_idle.wait(LIMIT_S)  # else it would leave the message to the thread that is still writing

    for peer, went in _interrupted_sends(open_peer, message, get_ready, error):
        try:
            assert peer.next()[1] == (message if went else b"the next")
        except ConnectionResetError:
            assert isinstance(peer.socket, ssl.SSLSocket) or 0 < went[0] < len(message), "it ends for no reason"


def test_who_is_interrupted_as_another_sends_has_left_a_whole_message_to_it_or_nothing(
    open_peer: Callable[..., Peer],
) -> None:
    large = bytes(16 << 20)

    def get_ready(peer: Peer) -> None:
        peer.outgoing.put((large,))
        peer.wait_for_bytes()  # it is being sent, and there is no room for all of it

    for peer, went in _interrupted_sends(open_peer, b"small", get_ready):
        try:
            assert [peer.next()[1] for _ in range(2)] == [large, b"small" if went else b"the next"]
        except ConnectionResetError:
            assert isinstance(peer.socket, ssl.SSLSocket), "it ends for no reason"


def test_who_is_interrupted_as_it_receives_is_told_so(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    peer.say(Kind.MESSAGE, b"part of what comes")
    with pytest.raises(TimeoutError), Interrupt(TimeoutError, 3, is_answered=True):
        next(peer.carrier.receive())


@pytest.mark.parametrize("listen", ["Unix"], indirect=True)
def test_a_unix_socket_holds_more_than_it_does_by_itself(open_peer: Callable[..., Peer]) -> None:
    peer, large, went = open_peer(), bytes(64 << 20), list[int]()
    assert peer.is_idle.wait(LIMIT_S)
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        here.setblocking(False)
        by_itself = here.send(large)

    peer.carrier.send((large,), went)

    assert by_itself < went[0] < len(large)


def test_who_is_interrupted_before_half_a_message_is_accounted_for_ends_it(open_peer: Callable[..., Peer]) -> None:
    peer, large = open_peer(), bytes(range(256)) * (64 << 10)
    assert peer.is_idle.wait(LIMIT_S)

    class Uncounted(list[int]):
        """What went, which nobody comes to read."""

        def __getitem__(self, at: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        peer.carrier.send((large,), Uncounted())
    peer.carrier.send((b"the next",), [])
    with pytest.raises(ConnectionResetError):
        peer.next()
