"""A port in front of a server's: a test's function takes each connection, on a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Front:
    """Takes connections until it is closed.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, take: Callable[[socket.socket], object]) -> None:
        self._take = take
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._take, args=(connection,), daemon=True).start()


def hand_on(source: socket.socket, target: socket.socket) -> None:
    """Pass on the bytes of a socket to another until they end, and then the end."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
