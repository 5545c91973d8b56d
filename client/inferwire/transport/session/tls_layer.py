"""TLS for a socket that one thread receives from while others send, with nobody waiting for anybody.

Owns what has come and cannot be read yet. Python's own sockets with TLS are for one thread at a time, which keeps the
others out while it waits for the peer; here nothing but the handshake waits.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Sequence
from typing import Any

from inferwire.transport.executions import WireBytes

_ROOM_BYTES = 1 << 16
"""How much is received at once: four of TLS's largest records."""


class TlsLayer:
    """What was agreed on with a peer. Whoever calls `seal` or `read_into` has to be the only one who does."""

    def __init__(self, context: ssl.SSLContext, peer: socket.socket, host: str) -> None:
        """Agree on it, on a socket that has a time-out.

        Raises:
            OSError: If the peer does not answer in time, speaks no TLS, or is not one that is trusted.
        """
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_hostname=host)
        self.room = memoryview(bytearray(_ROOM_BYTES))
        self._shake_hands(peer)

    def __repr__(self) -> str:
        return f"<TlsLayer {self._tls.version()}>"

    def owed(self) -> Sequence[bytes]:
        """Take what the layer itself has to tell the peer, mostly nothing."""
        return (self._goes.read(),) if self._goes.pending else ()

    def seal(self, pieces: Iterable[WireBytes]) -> bytes:
        """Encrypt what is to be sent."""
        for piece in pieces:
            if len(piece):
                self._tls.write(piece)
        return self._goes.read()

    def read_into(self, room: memoryview, came: int | None = None) -> int | None:
        """Decrypt some of what has come, and return how many bytes; 0 at the end, None where more has to come first.

        Args:
            room: Where to put it.
            came: How many bytes were received in the layer's own room since, if any were; 0 for the connection's end.

        Raises:
            OSError: If it is not what the peer has sent.
        """
        if came is not None:
            self._take(came)
        tls: Any = self._tls  # where there is room to put them it gives no bytes, though its types say so
        try:
            return tls.read(len(room), room)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLEOFError:
            # Frames tell whether all was said, and not TLS.
            return 0

    def _take(self, came: int) -> None:
        if came:
            self._came.write(self.room[:came])
        else:
            self._came.write_eof()

    def _shake_hands(self, peer: socket.socket) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                peer.sendall(self._goes.read())
                self._take(peer.recv_into(self.room))
            except ssl.SSLError:
                # The peer is told why.
                peer.sendall(self._goes.read())
                raise
            else:
                peer.sendall(self._goes.read())
                return
