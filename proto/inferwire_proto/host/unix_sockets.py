"""What both sides ask of the system for a Unix socket."""

from __future__ import annotations

import socket

_MOST_UNTAKEN_BYTES = 4 << 20
"""As much as Linux lets a TCP connection have by itself. The system gives less if its limit for programs is lower."""


def make_room(connection: socket.socket) -> None:
    """Let a connection's send buffer hold many bytes that its peer has not taken yet.

    Unlike TCP's, the buffer of a Unix socket does not grow: after some 200 KB, sender and receiver take turns.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_UNTAKEN_BYTES)
