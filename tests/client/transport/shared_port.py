"""A port that gRPC's own server shares with sessions on sockets, as inferwire's gRPC port does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from inferwire_proto.frames import PREFACE


class SharedPort:
    """Hands on each connection by what it begins with: to gRPC's port, or to whoever speaks at sockets.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, grpc_port: int, at_socket: Callable[[socket.socket], object]) -> None:
        self._grpc_port = grpc_port
        self._at_socket = at_socket
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        # A client may leave at any time, also while its session moves.
        with connection, suppress(OSError):
            begun = connection.recv(len(PREFACE), socket.MSG_PEEK)
            if PREFACE.startswith(begun[:1]):
                if begun:
                    self._at_socket(connection)
                return
            with socket.create_connection(("127.0.0.1", self._grpc_port)) as inner:
                back = threading.Thread(target=_hand_on, args=(inner, connection), daemon=True)
                back.start()
                _hand_on(connection, inner)
                back.join()


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    """Hand on what comes until it ends, and the end."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
