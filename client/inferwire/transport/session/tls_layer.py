"""TLS for a socket that one thread receives from while others send, without one waiting for another.

Owns received bytes that cannot be decrypted yet. A TLS socket of Python's own serves one thread at a time, and keeps
the others out while that thread waits for the peer. Here only the handshake waits.
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
    """TLS with one peer. Its methods do no I/O and take no lock: the caller keeps their calls from overlapping.

    Attributes:
        room: Where to receive bytes for `read_into`.
        has_more: Whether `read_into` may give more, though nothing more is received.
    """

    def __init__(self, context: ssl.SSLContext, peer: socket.socket, host: str) -> None:
        """Shake hands with the peer, over a socket that has a timeout.

        Raises:
            OSError: If the peer does not answer in time, speaks no TLS, or is not trusted.
        """
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_hostname=host)
        self.room = memoryview(bytearray(_ROOM_BYTES))
        self.has_more = True
        self._shake_hands(peer)

    def __repr__(self) -> str:
        return f"<TlsLayer {self._tls.version()}>"

    @property
    def protocol(self) -> str | None:
        """What the peer has chosen to speak, of the protocols that the context offers; None if it has chosen none."""
        return self._tls.selected_alpn_protocol()

    def owed(self) -> Sequence[bytes]:
        """Take the records that TLS itself has for the peer, usually none."""
        return (self._goes.read(),) if self._goes.pending else ()

    def seal(self, pieces: Iterable[WireBytes]) -> bytes:
        """Encrypt the pieces, and return the records to send."""
        for piece in pieces:
            if len(piece):
                self._tls.write(piece)
        return self._goes.read()

    def read_into(self, room: memoryview, came: int | None) -> int | None:
        """Decrypt received bytes, and return how many; 0 at the end, None if more must be received first.

        Args:
            room: Where the decrypted bytes go.
            came: How many bytes were received into `self.room` since the last call; 0 at the end of the connection,
                None if nothing was received.

        Raises:
            OSError: If the bytes are not as the peer sent them.
        """
        if came is not None:
            self._take(came)
        self.has_more = False
        tls: Any = self._tls  # with a buffer, `read` returns a count, though its type hints say bytes
        try:
            # No more than one record at a time.
            count: int = tls.read(len(room), room)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLEOFError:
            # Whether the peer had said everything is told by the frames, not by TLS.
            return 0
        self.has_more = count == len(room) or self._came.pending > 0
        return count

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
                # Send the alert that tells the peer why.
                peer.sendall(self._goes.read())
                raise
            else:
                peer.sendall(self._goes.read())
                return
