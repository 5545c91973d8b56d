"""A port that gRPC's own server shares with sessions on sockets, as inferwire's gRPC port does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.front import Front, hand_on

from inferwire_proto.frames import PREFACE


def shared_port(grpc_port: int, at_socket: Callable[[socket.socket], object]) -> Front:
    """Pass each connection on by its first bytes: to gRPC's port, or to the function for sockets."""

    def take(connection: socket.socket) -> None:
        # A client may leave at any time, even while its session moves to a socket.
        with connection, suppress(OSError):
            begun = connection.recv(len(PREFACE), socket.MSG_PEEK)
            if not begun:
                return
            if PREFACE.startswith(begun[:1]):
                at_socket(connection)
                return
            with socket.create_connection(("127.0.0.1", grpc_port)) as inner:
                back = threading.Thread(target=hand_on, args=(inner, connection), daemon=True)
                back.start()
                hand_on(connection, inner)
                back.join()

    return Front(take)
