"""A session's messages on a socket of their own, past gRPC: the same bytes, in half the time of a small inference.

Owns the frames, the writing thread, and how long a silent server is waited for. gRPC hands each message from thread to
thread, with a lock and a queue at each. Here the thread that has a lone message writes it, and large ones are sent
without being copied. What a thread finds no room for, `shared_socket` keeps for the writing thread.
"""

from __future__ import annotations

import logging
import ssl
import sys
import threading
from collections.abc import Callable, Generator, Iterator

from google.protobuf.message import DecodeError

from inferwire.errors import ServerUnavailable
from inferwire.signal_handlers import is_a_handlers
from inferwire.transport import codec
from inferwire.transport.address import SocketPlace, place_text
from inferwire.transport.executions import WireBytes
from inferwire.transport.session.carriers import Pieces
from inferwire.transport.timeouts import Timeouts
from inferwire_proto import frames
from inferwire_proto.frames import FrameReader, Kind, MalformedFrame
from inferwire_proto.inferwire.v1.types_pb2 import Error

if sys.platform != "win32":
    from inferwire.transport.session.shared_socket import MOST_PIECES, SharedSocket
else:
    raise ImportError("Windows' sockets lack much of what is used here: sessions stay on gRPC there")

_LOG = logging.getLogger(__name__)

MOST_JOINED = 1 << 16
"""Up to this size, joining a message's pieces costs less than passing several to the system."""

_MOST_BYTES = 2**32 - 1


class SocketCarrier:
    """Carries messages over a socket. Any number of threads may send at the same time; one at a time receives.

    Attributes:
        has_come: Says whether bytes have come, or the end.
    """

    def __init__(
        self,
        place: SocketPlace,
        timeouts: Timeouts,
        tls: ssl.SSLContext | None,
        host: str = "",
    ) -> None:
        """Connect and, if `tls` is given, shake hands with a server that has a certificate for the host.

        Raises:
            OSError: If no server answers there in time, or it is not trusted.
        """
        self._place = place
        self._timeouts = timeouts
        self._socket = SharedSocket(place, timeouts, tls, host)
        self._socket.allow_silence(timeouts.keepalive_s)
        self.has_come = self._socket.has_come

    def __repr__(self) -> str:
        return f"<SocketCarrier to {place_text(self._place)}>"

    def start(self, messages: Iterator[Pieces], wake: Callable[[], None]) -> None:
        """Start the writing thread, which sends the preface and then the messages."""
        self._socket.wake = wake
        threading.Thread(target=self._write, args=(messages,), name="inferwire-writer", daemon=True).start()

    def send(self, message: Pieces, went: list[int]) -> None:
        """Send a message from the calling thread, without waiting for room."""
        self._socket.send_now(_frame(message), went)

    def receive(self) -> Generator[WireBytes | None]:
        """Yield the messages that arrive, and answer the server's pings; None where no message is complete."""
        reader = FrameReader(frames.scratch(), _MOST_BYTES)
        low_water = self._socket.low_water()
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
            self._socket.part()

    def cancel(self) -> None:
        """End both directions now."""
        self._socket.cancel()

    def _write(self, messages: Iterator[Pieces]) -> None:
        try:
            self._socket.send(frames.PREFACE)
            for message in messages:
                self._socket.send(*_frame(message))
                # Do not keep the sent tensors alive while there is nothing to send.
                del message
            self._socket.send(frames.frame(Kind.END))
        except Exception:  # noqa: BLE001 - ends the connection, so that waiting threads are told
            _LOG.exception("what is to be sent to %s could not be made: the connection ends", place_text(self._place))
            self.cancel()
        finally:
            self._socket.part()

    def _receive_into(self, room: memoryview) -> int | None:
        """Receive some bytes as `SharedSocket.receive_into` does, and ping a server that is silent for long.

        Raises:
            OSError: If the connection is lost.
            ServerUnavailable: If the server does not answer a ping.
        """
        while True:
            try:
                return self._socket.receive_into(room)
            except BlockingIOError:
                if self._say(Kind.PING):
                    break
        self._socket.allow_silence(self._timeouts.answer_s)
        try:
            return self._socket.receive_into(room)
        except BlockingIOError:
            raise self._lost(f"it has not answered within {self._timeouts.answer_s:g} s") from None
        finally:
            self._socket.allow_silence(self._timeouts.keepalive_s)

    def _say(self, kind: Kind) -> bool:
        """Send a ping or a pong unless other data waits to be sent; return whether it went.

        Any data that arrives tells the server the same. The receiving thread must not wait for room here: the server
        may read nothing until its answers are read. If nothing can be sent for long, the system ends the connection.
        """
        if self._socket.has_unsent:
            return False
        return self._socket.send_now((frames.frame(kind),), [])

    def _lost(self, why: str) -> ServerUnavailable:
        return ServerUnavailable(f"the connection to the server's socket at {place_text(self._place)} was lost: {why}")


def _frame(message: Pieces) -> Pieces:
    """Put a frame's header before a message; join one that is small or has very many pieces."""
    if not message:
        return ()
    byte_size = sum(map(len, message))
    header = frames.header(Kind.MESSAGE, byte_size)
    if byte_size <= MOST_JOINED or len(message) > MOST_PIECES:
        return (b"".join((header, *message)),)
    return (header, *message)


def _error(content: WireBytes) -> Error:
    """Read why the server ended the stream."""
    try:
        return Error.FromString(bytes(content))
    except DecodeError:
        raise MalformedFrame(f"the last frame has {bytes(content)!r}, expected an error") from None
