"""A session's messages on a socket of their own, past gRPC: the same bytes, in half the time of a small inference.

Owns the socket, plain or with TLS, its writing thread, and how long a silent server is waited for. gRPC hands each
message from thread to thread, with a lock and a queue at each. Here the thread that has a lone message writes it, and
large ones are sent without being copied. Only the writing thread waits for room in the system's buffers: whatever other
threads find no room for, in whole or in part, they leave to the writing thread, and nothing overtakes that.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

from google.protobuf.message import DecodeError

from inferwire.errors import ServerUnavailable
from inferwire.signal_handlers import is_a_handlers
from inferwire.transport import codec
from inferwire.transport.address import SocketPlace, place_text
from inferwire.transport.executions import WireBytes
from inferwire.transport.session.carriers import Pieces
from inferwire.transport.session.tls_layer import TlsLayer
from inferwire.transport.timeouts import Timeouts
from inferwire_proto import frames
from inferwire_proto.frames import FrameReader, Kind, MalformedFrame
from inferwire_proto.host.low_water import low_water_on
from inferwire_proto.host.unix_sockets import make_room
from inferwire_proto.inferwire.v1.types_pb2 import Error

if sys.platform != "win32":
    from inferwire.transport.session.socket_waits import WAITS
else:
    raise ImportError("Windows' sockets lack much of what is used here: sessions stay on gRPC there")

_LOG = logging.getLogger(__name__)

MOST_JOINED = 1 << 16
"""Up to this size, joining a message's pieces costs less than passing several to the system."""

_MOST_PIECES = 512
"""How many pieces one call passes to the system: half of the most that systems take."""

_MOST_BYTES = 2**32 - 1


class SocketCarrier:
    """Carries messages over a socket. Any number of threads may send at the same time; one at a time receives."""

    def __init__(
        self,
        place: SocketPlace,
        timeouts: Timeouts,
        tls: ssl.SSLContext | None = None,
        host: str = "",
    ) -> None:
        """Connect and, if `tls` is given, shake hands with a server that has a certificate for the host.

        Raises:
            OSError: If no server answers there in time, or it is not trusted.
        """
        self._place = place
        self._timeouts = timeouts
        self._lock = threading.Lock()
        # Bytes that the writing thread has yet to send, and whether a thread is sending: changed with the lock held.
        self._left: list[WireBytes] = []
        self._is_writing = False
        self._wake: Callable[[], None] = _not_started
        self._readiness = select.poll()
        self._users = 2
        self._socket, self._tls = _connect(place, timeouts.socket_s, tls, host)
        self._readiness.register(self._socket, select.POLLIN)
        # A send fails if none of it goes for this long. If some of it went, the rest has as long again, so that a
        # stalled server is noticed after one to two times the limit. On TCP, the option below ends it after one.
        limit_s = timeouts.keepalive_s + timeouts.answer_s
        self._waits = WAITS(self._socket, limit_s)
        self._waits.allow_silence(timeouts.keepalive_s)
        if isinstance(place, tuple) and sys.platform == "linux":
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limit_s * 1000))

    def __repr__(self) -> str:
        return f"<SocketCarrier to {place_text(self._place)}>"

    def start(self, messages: Iterator[Pieces], wake: Callable[[], None]) -> None:
        """Start the writing thread, which sends the preface and then the messages."""
        self._wake = wake
        threading.Thread(target=self._write, args=(messages,), name="inferwire-writer", daemon=True).start()

    def send(self, message: Pieces, went: list[int]) -> None:
        """Send a message from the calling thread, without waiting for room."""
        self._send_now(b"".join((frames.header(Kind.MESSAGE, sum(map(len, message))), *message)), went)

    def has_come(self) -> object:
        """Whether bytes have come, or the end."""
        return (self._tls is not None and self._tls.has_more) or self._readiness.poll(0)

    def receive(self) -> Generator[WireBytes | None]:
        """Yield the messages that arrive, and answer the server's pings; None where no message is complete."""
        reader = FrameReader(frames.scratch(), _MOST_BYTES)
        low_water = low_water_on(self._socket, has_tls=self._tls is not None)
        try:
            while (count := self._receive_into(reader.room())) != 0:
                is_partial = True
                for kind, content in reader.received(count) if count else ():
                    if kind is Kind.MESSAGE:
                        is_partial = False
                        yield content
                    elif kind is Kind.PING:
                        self._say(Kind.PONG)
                    elif kind is Kind.END:
                        if content:
                            raise codec.decode_error(_error(content))
                        return
                low_water.expect(reader.missing)
                if is_partial:
                    yield None
            raise self._lost("it ended without a word")
        except OSError as error:
            if is_a_handlers(error):
                raise
            raise self._lost(error.strerror or str(error)) from None
        finally:
            self.cancel()
            self._part()

    def cancel(self) -> None:
        """End both directions now."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The connection has ended already.
            return

    def _write(self, messages: Iterator[Pieces]) -> None:
        try:
            self._send(frames.PREFACE)
            for message in messages:
                self._send(*_frame(message))
                # Do not keep the sent tensors alive while there is nothing to send.
                del message
            self._send(frames.frame(Kind.END))
        except Exception:  # noqa: BLE001 - ends the connection, so that waiting threads are told
            _LOG.exception("what is to be sent to %s could not be made: the connection ends", place_text(self._place))
            self.cancel()
        finally:
            self._part()

    def _send_now(self, data: bytes, went: list[int]) -> bool:
        """Send what there is room for and leave the rest to the writing thread; return whether all of it went."""
        try:
            with self._lock:
                if self._tls is not None:
                    data = self._tls.seal((data,))
                if self._is_writing or self._left:
                    # Python runs signal handlers only after calls. These lines make none: both are done, or neither.
                    self._left += (data,)
                    went += (0,)
                else:
                    self._send_at_once(data, went)
                if went[0] == len(data):
                    return True
        except BaseException as error:
            if isinstance(error, OSError) and not is_a_handlers(error):
                self.cancel()
                return False
            if self._tls is not None and not went:
                # A record was sealed and not sent, and the peer cannot read any later one without it.
                self.cancel()
            raise
        self._wake()
        return False

    def _send_at_once(self, data: bytes, went: list[int]) -> None:
        """Send what there is room for, and leave the rest; the lock is held.

        `_is_writing` keeps other threads from sending until what went is accounted for. If an interrupt cuts the
        accounting short, it stays set, and the writing thread ends the connection.
        """
        size = len(data)
        self._is_writing = True
        try:
            # A single step of the interpreter, which runs signal handlers only after it: `went` has the number by then.
            went.extend(map(self._socket.send, (data,), (self._waits.at_once,)))
        except BlockingIOError:
            went.append(0)
        finally:
            if went and went[0] < size:
                self._left.append(memoryview(data)[went[0] :])
            self._is_writing = False

    def _send(self, *pieces: WireBytes) -> None:
        """Send what other threads left and then these pieces, waiting for room. For the writing thread alone.

        If that fails, it ends the connection, and `receive` raises.
        """
        try:
            with self._lock:
                if self._is_writing:
                    # No thread is: the one that was writing was interrupted, and how much went is not known.
                    self.cancel()
                    return
                self._leave(pieces)
            while taken := self._take_left():
                self._send_pieces(taken)
        except OSError:
            self.cancel()

    def _leave(self, pieces: Pieces) -> None:
        """Put these pieces behind those that are left; the lock is held."""
        if self._tls is None:
            self._left += pieces
        elif pieces:
            self._left.append(self._tls.seal(pieces))

    def _take_left(self) -> list[WireBytes]:
        """Take the pieces to send next. From then on, until nothing is left, only the calling thread sends."""
        with self._lock:
            taken, self._left = self._left[:_MOST_PIECES], self._left[_MOST_PIECES:]
            self._is_writing = bool(taken)
            return taken

    def _send_pieces(self, pieces: list[WireBytes]) -> None:
        self._waits.for_room()
        sent = self._socket.sendmsg(pieces)
        for piece in pieces:
            rest = memoryview(piece)[sent:]
            sent -= len(piece) - len(rest)
            while rest:
                self._waits.for_room()
                rest = rest[self._socket.send(rest) :]

    def _receive_into(self, room: memoryview) -> int | None:
        """Receive some bytes and return how many, as `_receive_some` does. Ping a server that is silent for long.

        Raises:
            OSError: If the connection is lost.
            ServerUnavailable: If the server does not answer a ping.
        """
        while True:
            try:
                return self._receive_some(room)
            except BlockingIOError:
                if self._say(Kind.PING):
                    break
        self._waits.allow_silence(self._timeouts.answer_s)
        try:
            return self._receive_some(room)
        except BlockingIOError:
            raise self._lost(f"it has not answered within {self._timeouts.answer_s:g} s") from None
        finally:
            self._waits.allow_silence(self._timeouts.keepalive_s)

    def _receive_some(self, room: memoryview) -> int | None:
        """Receive some bytes, once, and return how many; 0 at the end, None where TLS has no whole record.

        Raises:
            BlockingIOError: If nothing comes for long.
        """
        tls = self._tls
        if tls is None:
            self._waits.for_bytes()
            return self._socket.recv_into(room)
        came = None
        if not tls.has_more:
            self._waits.for_bytes()
            came = self._socket.recv_into(tls.room)
        with self._lock:
            count = tls.read_into(room, came)
            self._left += (owed := tls.owed())
        if owed:
            self._wake()
        return count

    def _say(self, kind: Kind) -> bool:
        """Send a ping or a pong unless other data waits to be sent; return whether it went.

        Any data that arrives tells the server the same. The receiving thread must not wait for room here: the server
        may read nothing until its answers are read. If nothing can be sent for long, the system ends the connection.
        """
        if self._is_writing or self._left:
            return False
        return self._send_now(frames.frame(kind), [])

    def _lost(self, why: str) -> ServerUnavailable:
        return ServerUnavailable(f"the connection to the server's socket at {place_text(self._place)} was lost: {why}")

    def _part(self) -> None:
        """Close the socket once both the writing and the receiving thread are done with it."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._socket.close()


def _frame(message: Pieces) -> Pieces:
    """Put a frame's header before a message; join one that is small or has very many pieces."""
    if not message:
        return ()
    byte_size = sum(map(len, message))
    header = frames.header(Kind.MESSAGE, byte_size)
    if byte_size <= MOST_JOINED or len(message) > _MOST_PIECES:
        return (b"".join((header, *message)),)
    return (header, *message)


def _error(content: WireBytes) -> Error:
    """Read why the server ended the stream."""
    try:
        return Error.FromString(bytes(content))
    except DecodeError:
        raise MalformedFrame(f"the last frame has {bytes(content)!r}, expected an error") from None


def _not_started() -> None:
    """Stand in for `wake` until `start` is given it."""


def _connect(
    place: SocketPlace, limit_s: float, context: ssl.SSLContext | None, host: str
) -> tuple[socket.socket, TlsLayer | None]:
    tls = None
    with ExitStack() as on_failure:
        if isinstance(place, str):
            connected = on_failure.enter_context(socket.socket(socket.AF_UNIX))
            connected.settimeout(limit_s)
            connected.connect(place)
            make_room(connected)
        else:
            connected = on_failure.enter_context(socket.create_connection(place, limit_s))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                tls = TlsLayer(context, connected, host or place[0])
        connected.settimeout(None)
        on_failure.pop_all()
    return connected, tls
