"""A socket that any number of threads send on while one receives, plain or with TLS.

Owns who sends, and what is left to be sent. Only one thread waits for room in the system's buffers: whatever the others
find no room for, in whole or in part, they leave to it, and nothing overtakes that. Knows no frames.
"""

from __future__ import annotations

import select
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

from inferwire.signal_handlers import is_a_handlers
from inferwire.transport.address import SocketPlace
from inferwire.transport.executions import WireBytes
from inferwire.transport.session.carriers import Pieces
from inferwire.transport.session.tls_layer import TlsLayer
from inferwire.transport.timeouts import Timeouts
from inferwire_proto.host.low_water import LowWater, low_water_on
from inferwire_proto.host.unix_sockets import make_room

if sys.platform != "win32":
    from inferwire.transport.session.socket_waits import WAITS
else:
    raise ImportError("Windows' sockets lack much of what is used here: sessions stay on gRPC there")

MOST_PIECES = 512
"""How many pieces one call passes to the system: half of the most that systems take."""


class SharedSocket:
    """A connected socket. Any number of threads may `send_now`; one at a time receives, and one alone calls `send`.

    Attributes:
        allow_silence: Sets for how many seconds `receive_into` waits for bytes.
        wake: Called when something is left that `send` has to send.
    """

    def __init__(self, place: SocketPlace, timeouts: Timeouts, tls: ssl.SSLContext | None, host: str) -> None:
        """Connect and, if `tls` is given, shake hands with a server that has a certificate for the host.

        Raises:
            OSError: If no server answers there in time, or it is not trusted.
        """
        self.wake: Callable[[], None] = _nobody_waits
        self._lock = threading.Lock()
        # Bytes that `send` has yet to send, and whether a thread is sending: changed with the lock held.
        self._left: list[WireBytes] = []
        self._is_writing = False
        self._readiness = select.poll()
        self._users = 2
        self._socket, self._tls = _connect(place, timeouts.socket_s, tls, host)
        self._readiness.register(self._socket, select.POLLIN)
        # A send fails if none of it goes for this long. If some of it went, the rest has as long again, so that a
        # stalled server is noticed after one to two times the limit. On TCP, the option below ends it after one.
        limit_s = timeouts.keepalive_s + timeouts.answer_s
        self._waits = WAITS(self._socket, limit_s)
        self.allow_silence = self._waits.allow_silence
        if isinstance(place, tuple) and sys.platform == "linux":
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limit_s * 1000))

    def __repr__(self) -> str:
        return f"<SharedSocket: {sum(map(len, self._left))} bytes are left>"

    @property
    def has_unsent(self) -> bool:
        """Whether something is left to be sent, or being sent."""
        return self._is_writing or bool(self._left)

    def low_water(self) -> LowWater:
        """Make its low-water mark."""
        return low_water_on(self._socket, has_tls=self._tls is not None)

    def has_come(self) -> object:
        """Whether bytes have come, or the end."""
        return (self._tls is not None and self._tls.has_more) or self._readiness.poll(0)

    def send_now(self, pieces: Pieces, went: list[int]) -> bool:
        """Send what there is room for and leave the rest to `send`; return whether all of it went.

        What went, and how an interrupted call is told from `went`, is as `Carrier.send` has it.
        """
        try:
            with self._lock:
                if self._tls is not None:
                    pieces = (self._tls.seal(pieces),)
                if self._is_writing or self._left:
                    # Python runs signal handlers only after calls. These lines make none: both are done, or neither.
                    self._left += pieces
                    went += (0,)
                else:
                    self._send_at_once(pieces, went)
                if not self._left:
                    return True
        except BaseException as error:
            if isinstance(error, OSError) and not is_a_handlers(error):
                self.cancel()
                return False
            if self._tls is not None and not went:
                # A record was sealed and not sent, and the peer cannot read any later one without it.
                self.cancel()
            raise
        self.wake()
        return False

    def _send_at_once(self, pieces: Pieces, went: list[int]) -> None:
        """Send what there is room for, and leave the rest; the lock is held.

        `_is_writing` keeps other threads from sending until what went is accounted for. If an interrupt cuts the
        accounting short, it stays set, and the writing thread ends the connection.
        """
        size = sum(map(len, pieces))
        self._is_writing = True
        try:
            # A single step of the interpreter, which runs signal handlers only after it: `went` has the number by then.
            went.extend(map(self._socket.sendmsg, (pieces,), ((),), (self._waits.at_once,)))
        except BlockingIOError:
            went.append(0)
        finally:
            if went and went[0] < size:
                self._left += _rest(pieces, went[0])
            self._is_writing = False

    def send(self, *pieces: WireBytes) -> None:
        """Send what other threads left and then these pieces, waiting for room. For one thread alone.

        If that fails, it ends the connection, and `receive_into` raises or gives the end.
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

    def receive_into(self, room: memoryview) -> int | None:
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
            self.wake()
        return count

    def cancel(self) -> None:
        """End both directions now."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The connection has ended already.
            return

    def part(self) -> None:
        """Close it once both the thread that calls `send` and the one that receives have called this."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._socket.close()

    def _leave(self, pieces: Pieces) -> None:
        """Put these pieces behind those that are left; the lock is held."""
        if self._tls is None:
            self._left += pieces
        elif pieces:
            self._left.append(self._tls.seal(pieces))

    def _take_left(self) -> list[WireBytes]:
        """Take the pieces to send next. From then on, until nothing is left, only the calling thread sends."""
        with self._lock:
            taken, self._left = self._left[:MOST_PIECES], self._left[MOST_PIECES:]
            self._is_writing = bool(taken)
            return taken

    def _send_pieces(self, pieces: list[WireBytes]) -> None:
        self._waits.for_room()
        for rest in _rest(pieces, self._socket.sendmsg(pieces)):
            while rest:
                self._waits.for_room()
                rest = rest[self._socket.send(rest) :]


def _rest(pieces: Pieces, sent: int) -> list[memoryview]:
    """Give what is left to be sent of these pieces once so many of their bytes went."""
    rest: list[memoryview] = []
    for piece in pieces:
        left = memoryview(piece)[sent:]
        sent -= len(piece) - len(left)
        if left:
            rest.append(left)
    return rest


def _nobody_waits() -> None:
    """Stand in for `wake` until that is set."""


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
