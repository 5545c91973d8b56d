"""TLS in front of a server that has none: it passes requests on as plain bytes, and the answers back."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import trustme
from tests.front import Front


class TlsFront(Front):
    """A port with TLS.

    Attributes:
        received: All bytes that its clients have sent, as the server got them.
    """

    def __init__(self, server_port: int, certificate: trustme.LeafCert, protocol: str) -> None:
        self.received = bytearray()
        self._server_port = server_port
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.set_alpn_protocols([protocol])
        certificate.configure_cert(self._context)
        super().__init__(self._serve)

    def _serve(self, connection: socket.socket) -> None:
        with (
            suppress(OSError),
            self._context.wrap_socket(connection, server_side=True) as client,
            socket.create_connection(("127.0.0.1", self._server_port)) as server,
        ):
            answering = threading.Thread(target=self._answer, args=(server, client), daemon=True)
            answering.start()
            while data := client.recv(1 << 16):
                self.received += data
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            answering.join()

    def _answer(self, server: socket.socket, client: ssl.SSLSocket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def tls_front(server_port: int, certificate: trustme.LeafCert, protocol: str) -> Generator[TlsFront]:
    front = TlsFront(server_port, certificate, protocol)
    try:
        yield front
    finally:
        front.close()
