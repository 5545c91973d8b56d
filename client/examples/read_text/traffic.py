"""Counts the bytes between a client and its server: a relay of what they say over gRPC."""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class Traffic:
    """A relay to a server, for as long as the block runs.

    Attributes:
        address: What a client connects to instead of the server.
        sent: The bytes that clients have sent.
        received: The bytes that the server has sent back.
    """

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0
        self.received = 0

    def __enter__(self) -> Traffic:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._sockets):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            threading.Thread(target=self._relay, args=(client, server, "sent"), daemon=True).start()
            threading.Thread(target=self._relay, args=(server, client, "received"), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, counter: str) -> None:
        try:
            while data := source.recv(1 << 16):
                setattr(self, counter, getattr(self, counter) + len(data))
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            target.close()
