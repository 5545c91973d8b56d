"""A server's end of a socket that the test controls."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.executions import WireBytes
from inferwire.transport.session.carriers import Pieces
from inferwire.transport.session.socket_carrier import SocketCarrier
from inferwire.transport.timeouts import Timeouts
from inferwire_proto import frames
from inferwire_proto.frames import Frame, FrameReader, Kind

END = None


@dataclass(frozen=True, slots=True)
class Tls:
    """The contexts with which both sides speak TLS."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens, and its TLS, if any."""

    listener: socket.socket
    tls: Tls | None = None

    def accept(self) -> socket.socket:
        """Accept a connection, with the TLS handshake if it has TLS."""
        accepted, _ = self.listener.accept()
        accepted.settimeout(LIMIT_S)
        return accepted if self.tls is None else self.tls.server.wrap_socket(accepted, server_side=True)

    def connect(self, keepalive_s: float = LIMIT_S, answer_s: float = LIMIT_S) -> SocketCarrier:
        """Make a carrier to it."""
        tls = None if self.tls is None else self.tls.client
        timeouts = Timeouts(keepalive_s=keepalive_s, answer_s=answer_s, socket_s=LIMIT_S)
        return SocketCarrier(self.listener.getsockname(), timeouts, tls)

    def connected(self, *limits: float) -> tuple[SocketCarrier, socket.socket]:
        """Make a carrier, and give the server's end of it as well."""
        with self.listener, DaemonThreads() as beside:
            accepted = beside.submit(self.accept)
            return self.connect(*limits), accepted.result(LIMIT_S)


class Peer:
    """A carrier, the messages it has to send, and a server's end of its socket.

    Attributes:
        is_idle: Whether the writing thread has sent the preface and asked for messages.
        is_woken: Whether it was told that another thread has left it messages.
        may_write: Whether it gets messages.
    """

    def __init__(self, place: Place, keepalive_s: float, answer_s: float) -> None:
        self.outgoing: SimpleQueue[Pieces | None] = SimpleQueue()
        self.carrier, self.socket = place.connected(keepalive_s, answer_s)
        # A socket with TLS may be used by one thread at a time only.
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
            self.may_write.wait(LIMIT_S)
            yield message

    def _wake(self) -> None:
        self.is_woken.set()
        self.outgoing.put(())

    def received(self) -> Iterator[WireBytes]:
        """Give the messages that the carrier receives, each once it is complete."""
        return (message for message in self.carrier.receive() if message is not None)

    def next(self) -> tuple[Kind, bytes]:
        """Wait for a frame."""
        while not self.frames:
            self.read_some()
        kind, content = self.frames.pop(0)
        return kind, bytes(content)

    def make_room(self) -> None:
        """Read all bytes that have come, to make room."""
        self.socket.setblocking(False)
        with suppress(BlockingIOError, ssl.SSLWantReadError):
            while True:
                self._receive()
        self.socket.settimeout(LIMIT_S)

    def read_some(self) -> None:
        """Wait for bytes, and read some of those that come."""
        self.wait_for_bytes()
        self._receive()

    def wait_for_bytes(self) -> None:
        """Wait until some have come, and leave them there."""
        if not (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()):
            assert select.select([self.socket], [], [], LIMIT_S)[0], "nothing comes"

    def _receive(self) -> None:
        with self._turn:
            self._take_some()

    def _take_some(self) -> None:
        count = self.socket.recv_into(self.reader.room()[: frames.SCRATCH_BYTES])
        if not count:
            raise ConnectionResetError("the carrier ended without a word")
        self.frames += self.reader.received(count)

    def say(self, kind: Kind, content: bytes = b"") -> None:
        """Send a frame."""
        with self._turn:
            self.socket.sendall(frames.frame(kind, content))


def swallowed(messages: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from messages
    except (ov.InferwireError, ValueError):
        return
