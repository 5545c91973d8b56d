"""A socket of its own as what carries messages, plain or with TLS, against a peer that the test holds."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from tests.certificates import Authority

import inferwire as ov
from inferwire.transport.session.carriers import Pieces
from inferwire.transport.session.socket_carrier import MOST_JOINED, SocketCarrier
from inferwire_proto import frames
from inferwire_proto.errors import Code
from inferwire_proto.frames import Frame, FrameReader, Kind, MalformedFrame
from inferwire_proto.inferwire.v1 import types_pb2

TIMEOUT_S = 10
END = None


@dataclass(frozen=True, slots=True)
class Tls:
    """What either side speaks it with."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens, and how it speaks."""

    listener: socket.socket
    tls: Tls | None = None

    def accept(self) -> socket.socket:
        """Take a connection, and agree on how it speaks."""
        accepted, _ = self.listener.accept()
        accepted.settimeout(TIMEOUT_S)
        return accepted if self.tls is None else self.tls.server.wrap_socket(accepted, server_side=True)

    def connect(self, keepalive_s: float = TIMEOUT_S, answer_s: float = TIMEOUT_S) -> SocketCarrier:
        """Make a carrier to it."""
        tls = None if self.tls is None else self.tls.client
        return SocketCarrier(self.listener.getsockname(), TIMEOUT_S, keepalive_s, answer_s, tls)

    def connected(self, *limits: float) -> tuple[SocketCarrier, socket.socket]:
        """Make a carrier, and give the server's end of it as well."""
        with self.listener, ThreadPoolExecutor(1) as beside:
            accepted = beside.submit(self.accept)
            return self.connect(*limits), accepted.result(TIMEOUT_S)


class Peer:
    """A carrier, what it is to send, and a server's end of its socket.

    Attributes:
        is_idle: Whether the writing thread has sent the preface and come for messages.
        is_woken: Whether it was told that another thread left something to it.
        may_write: Whether it gets messages.
    """

    def __init__(self, place: Place, keepalive_s: float, answer_s: float) -> None:
        self.outgoing: SimpleQueue[Pieces | None] = SimpleQueue()
        self.carrier, self.socket = place.connected(keepalive_s, answer_s)
        # Of a socket with TLS one thread makes use at a time.
        self._turn = threading.Lock()
        self.reader = FrameReader(frames.scratch(), 1 << 30)
        self.frames: list[Frame] = []
        self.is_idle, self.is_woken, self.may_write = (threading.Event() for _ in range(3))
        self.may_write.set()
        self.carrier.start(self._messages(), self._wake)
        preface = b""
        while len(preface) < len(frames.PREFACE):
            preface += self.socket.recv(len(frames.PREFACE) - len(preface))
        assert preface == frames.PREFACE

    def _messages(self) -> Iterator[Pieces]:
        self.is_idle.set()
        for message in iter(self.outgoing.get, END):
            self.may_write.wait(TIMEOUT_S)
            yield message

    def _wake(self) -> None:
        self.is_woken.set()
        self.outgoing.put(())

    def next(self) -> tuple[Kind, bytes]:
        """Wait for a frame."""
        while not self.frames:
            self.read_some()
        kind, content = self.frames.pop(0)
        return kind, bytes(content)

    def make_room(self) -> None:
        """Read all that has come."""
        self.socket.setblocking(False)
        with suppress(BlockingIOError, ssl.SSLWantReadError):
            while True:
                self._receive()
        self.socket.settimeout(TIMEOUT_S)

    def read_some(self) -> None:
        """Wait for bytes, and read some of those that come."""
        self.wait_for_bytes()
        self._receive()

    def wait_for_bytes(self) -> None:
        """Wait until some have come, and leave them there."""
        if not (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()):
            assert select.select([self.socket], [], [], TIMEOUT_S)[0], "nothing comes"

    def _receive(self) -> None:
        with self._turn:
            self._take_some()

    def _take_some(self) -> None:
        count = self.socket.recv_into(self.reader.room()[: frames.SCRATCH_BYTES])
        assert count, "the carrier ended without a word"
        self.frames += self.reader.received(count)

    def say(self, kind: Kind, content: bytes = b"") -> None:
        """Send a frame."""
        with self._turn:
            self.socket.sendall(frames.frame(kind, content))


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = authority.issue()
    server.load_cert_chain(issued.certificate, issued.key)
    return Tls(server, authority.trusting)


@pytest.fixture(params=["TCP", "Unix", "TLS"])
def listen(request: pytest.FixtureRequest, tmp_path: Path, tls: Tls) -> Callable[[], Place]:
    """Listen at a port or at a file."""

    def listen_() -> Place:
        if request.param != "Unix":
            return Place(socket.create_server(("127.0.0.1", 0)), tls if request.param == "TLS" else None)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        return Place(listener)

    return listen_


@pytest.fixture
def open_peer(listen: Callable[[], Place]) -> Iterator[Callable[..., Peer]]:
    opened: list[Peer] = []

    def open_(keepalive_s: float = TIMEOUT_S, answer_s: float = TIMEOUT_S) -> Peer:
        opened.append(Peer(listen(), keepalive_s, answer_s))
        return opened[-1]

    yield open_
    for peer in opened:
        peer.socket.close()
        peer.outgoing.put(END)
        # Only one that has been read from, and has said all, closes its own.
        list(swallowed(peer.carrier.receive()))


def swallowed(messages: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from messages
    except (ov.InferwireError, ValueError):
        return


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


def test_threads_that_send_at_once_do_not_mix_their_messages(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    messages = [bytes([number]) * (MOST_JOINED * 3) for number in range(8)]
    halves = [(memoryview(each)[:7], memoryview(each)[7:]) for each in messages]
    threads = [threading.Thread(target=peer.carrier.send, args=(each,)) for each in halves]
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
        peer.carrier.send((large,))
        peer.carrier.send((b"the next",))

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    sending.join(TIMEOUT_S)
    assert not sending.is_alive(), "it waits for room"
    peer.outgoing.put((b"the writing thread's",))

    assert [peer.next()[1] for _ in range(3)] == [large, b"the next", b"the writing thread's"]
    peer.carrier.send((b"and with room again",))
    assert peer.next() == (Kind.MESSAGE, b"and with room again")


def test_a_message_for_which_there_is_room_again_goes_behind_what_is_left(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    assert peer.is_idle.wait(TIMEOUT_S)
    peer.may_write.clear()
    large = bytes(range(256)) * (64 << 12)
    peer.carrier.send((large,))
    peer.make_room()
    peer.carrier.send((b"the next",))
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
        peer.carrier.send((b"small",))

        assert [peer.next()[1], peer.next()[1]] == [large, b"small"]


def test_a_message_that_finds_no_room_at_all_waits_for_it(open_peer: Callable[..., Peer]) -> None:
    """A Unix socket takes all of a small one or nothing."""
    peer = open_peer()
    assert peer.is_idle.wait(TIMEOUT_S)
    sent: list[bytes] = []
    while not peer.is_woken.is_set() and len(sent) < 1 << 16:
        sent.append(b"%4096d" % len(sent))
        peer.carrier.send((sent[-1],))

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

    assert [bytes(each) for each in peer.carrier.receive()] == [b"one", large]


def test_when_all_is_said_the_server_hears_it_and_then_ends_it(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    peer.outgoing.put((b"the last",))
    peer.outgoing.put(END)
    assert [peer.next(), peer.next()] == [(Kind.MESSAGE, b"the last"), (Kind.END, b"")]
    peer.say(Kind.MESSAGE, b"its answer")
    peer.say(Kind.END)

    assert list(peer.carrier.receive()) == [b"its answer"]
    assert peer.socket.recv(1) == b"", "the carrier is to close its socket"


def test_the_error_that_ends_it_is_raised(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    error = types_pb2.Error(code=types_pb2.ErrorCode.ValueType(Code.SHUTTING_DOWN.wire), message="the server goes")
    peer.say(Kind.END, error.SerializeToString())

    with pytest.raises(ov.InferwireError, match="the server goes"):
        list(peer.carrier.receive())


def test_a_server_that_goes_without_a_word_is_lost(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    peer.socket.close()

    with pytest.raises(ov.ServerUnavailable, match=r"was lost: (it ended without a word|Connection reset by peer)"):
        list(peer.carrier.receive())


def test_what_is_no_frame_cannot_be_read(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    peer.socket.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with pytest.raises(MalformedFrame, match="HTTP"):
        list(peer.carrier.receive())


def test_a_server_that_asks_is_answered(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer()
    messages = peer.carrier.receive()
    # One that asks while something is being sent has its answer in that: so it asks until nothing is.
    is_answered = threading.Event()

    def ask() -> None:
        while not is_answered.wait(0.01):
            peer.say(Kind.PING)
        peer.say(Kind.MESSAGE, b"one")

    asking, reading = threading.Thread(target=ask), threading.Thread(target=lambda: next(messages))
    for thread in (asking, reading):
        thread.start()
    assert peer.next() == (Kind.PONG, b"")
    is_answered.set()
    for thread in (asking, reading):
        thread.join(TIMEOUT_S)


def test_what_comes_is_read_while_a_message_waits_to_be_sent(open_peer: Callable[..., Peer]) -> None:
    """As where a server reads nothing more until its results are: with questions in between, or silence."""
    peer = open_peer(keepalive_s=0.05)
    peer.outgoing.put((bytes(64 << 20),))
    peer.wait_for_bytes()  # it is being sent, and there is no room for all of it
    received = peer.carrier.receive()
    answers: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=lambda: [answers.put(bytes(next(received))) for _ in range(2)], daemon=True).start()
    peer.say(Kind.PING)
    peer.say(Kind.MESSAGE, b"one")
    assert answers.get(timeout=TIMEOUT_S) == b"one"

    # Silence for longer than it would ask after.
    time.sleep(0.2)
    peer.say(Kind.MESSAGE, b"two")

    assert answers.get(timeout=TIMEOUT_S) == b"two"
    assert peer.next() == (Kind.MESSAGE, bytes(64 << 20))


def test_a_silent_server_is_asked_and_then_waited_for(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer(keepalive_s=0.05)
    received = peer.carrier.receive()
    answers: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=lambda: answers.put(bytes(next(received))), daemon=True).start()

    for _ in range(2):
        assert peer.next() == (Kind.PING, b"")
        peer.say(Kind.PONG)
    peer.say(Kind.MESSAGE, b"late")

    assert answers.get(timeout=TIMEOUT_S) == b"late"


def test_a_server_that_does_not_answer_is_lost(open_peer: Callable[..., Peer]) -> None:
    peer = open_peer(keepalive_s=0.05, answer_s=0.05)

    with pytest.raises(ov.ServerUnavailable, match=r"was lost: it has not answered within 0\.05 s"):
        list(peer.carrier.receive())


@pytest.mark.parametrize("by_writer", [True, False], ids=["the writing thread", "another thread"])
def test_a_server_that_reads_nothing_is_lost(open_peer: Callable[..., Peer], by_writer: bool) -> None:
    peer = open_peer(keepalive_s=0.1, answer_s=0.1)
    send = peer.outgoing.put if by_writer else peer.carrier.send
    send((bytes(64 << 20),))
    errors: SimpleQueue[str] = SimpleQueue()

    def receive() -> None:
        try:
            list(peer.carrier.receive())
        except ov.ServerUnavailable as error:
            errors.put(str(error))

    threading.Thread(target=receive, daemon=True).start()

    assert "was lost: " in errors.get(timeout=TIMEOUT_S)


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
    receiving = threading.Thread(target=receive)
    receiving.start()
    peer.carrier.cancel()
    for thread in (sending, receiving):
        thread.join(TIMEOUT_S)

    assert not sending.is_alive()
    assert isinstance(errors.get_nowait(), ov.ServerUnavailable)
    peer.carrier.send((b"nobody reads it",))


def test_where_nobody_listens_nothing_is_carried(listen: Callable[[], Place]) -> None:
    place = listen()
    with place.listener:
        where = place.listener.getsockname()
    with pytest.raises(OSError, match="refused"):
        SocketCarrier(where, TIMEOUT_S, TIMEOUT_S, TIMEOUT_S, place.tls and place.tls.client)


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


# TLS alone.


def test_a_server_that_is_not_trusted_gets_nothing(tls: Tls) -> None:
    place = Place(socket.create_server(("127.0.0.1", 0)), Tls(tls.server, ssl.create_default_context()))
    with place.listener, ThreadPoolExecutor(1) as beside:
        accepted = beside.submit(place.accept)
        with pytest.raises(ssl.SSLCertVerificationError):
            place.connect()
        # It is told why.
        assert "UNKNOWN_CA" in str(accepted.exception(TIMEOUT_S))


def test_a_certificate_for_another_host_is_not_taken(tls: Tls) -> None:
    with socket.create_server(("127.0.0.2", 0)) as listener, ThreadPoolExecutor(1) as beside:
        place = Place(listener, tls)
        accepted = beside.submit(place.accept)
        with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.2"):
            place.connect()
        assert accepted.exception(TIMEOUT_S)


@pytest.mark.parametrize(
    ("answer", "error"), [(b"HTTP/1.1 400 Bad Request\r\n\r\n", ssl.SSLError), (b"", OSError)], ids=["HTTP", "nothing"]
)
def test_what_speaks_no_tls_is_not_spoken_to(tls: Tls, answer: bytes, error: type[OSError]) -> None:
    place = Place(socket.create_server(("127.0.0.1", 0)), tls)

    def serve() -> bytes:
        with place.listener.accept()[0] as peer:
            hello = peer.recv(1 << 16)
            peer.sendall(answer)
            return hello

    with place.listener, ThreadPoolExecutor(1) as beside:
        said = beside.submit(serve)
        with pytest.raises(error):
            place.connect()
        assert frames.PREFACE not in said.result(TIMEOUT_S)


def test_bytes_that_the_peer_has_not_sent_end_it(tls: Tls) -> None:
    carrier, peer = Place(socket.create_server(("127.0.0.1", 0)), tls).connected()
    carrier.start(iter(()), lambda: None)
    with socket.socket(fileno=peer.detach()) as forging:
        forging.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ov.ServerUnavailable, match=r"was lost: .*(DECRYPTION_FAILED|BAD_RECORD_MAC)"):
            list(carrier.receive())


def test_nothing_that_is_said_can_be_read_on_the_way(tls: Tls) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as beside:
        came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = tls.server.wrap_bio(came, goes, server_side=True)
        seen = bytearray()

        def serve() -> bytes:
            peer, _ = listener.accept()
            said = b""
            with peer:
                while b"a secret" not in said:
                    data = peer.recv(1 << 16)
                    assert data
                    seen.extend(data)
                    came.write(data)
                    with suppress(ssl.SSLWantReadError):
                        while True:
                            said += server.read(1 << 16)
                    if goes.pending:
                        peer.sendall(goes.read())
            return said

        said = beside.submit(serve)
        carrier = SocketCarrier(listener.getsockname(), TIMEOUT_S, TIMEOUT_S, TIMEOUT_S, tls.client)
        carrier.start(iter([(b"a secret",)]), lambda: None)
        assert said.result(TIMEOUT_S).startswith(frames.PREFACE)
        assert frames.PREFACE not in seen
        assert b"a secret" not in seen
        list(swallowed(carrier.receive()))
