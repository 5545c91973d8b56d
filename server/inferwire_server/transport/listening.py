"""Why a socket cannot be opened, in one sentence for either transport."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import closing
from pathlib import Path


class CannotListen(OSError):
    """The server's address cannot be bound."""

    def __init__(self, protocol: str, host: str, port: int, reason: int | None) -> None:
        self._sentence = _sentence(protocol, host, port, reason)
        super().__init__(reason, self._sentence)

    def __str__(self) -> str:
        return self._sentence


class CannotListenAt(CannotListen):
    """The server's Unix socket cannot be made."""

    def __init__(self, path: Path, why: str) -> None:
        self._sentence = f"cannot listen for gRPC at '{path}': {why}; choose another path with --grpc-socket"
        OSError.__init__(self, None, self._sentence)


def require_free(protocol: str, host: str, port: int) -> None:
    """Refuse a port at which another server listens that would share it; 0 is any free one.

    Raises:
        CannotListen: It is not free.
    """
    reason = reason_not_to_listen(host, port) if port else None
    if reason is not None:
        raise CannotListen(protocol, host, port, reason)


def reason_not_to_listen(host: str, port: int) -> int | None:
    """Try an address, which gRPC says nothing of: give the system's number for why it cannot be had, if so.

    A port at which another process listens is one, even if that would share it.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with closing(socket.socket(family, kind, protocol)) as probe:
            # What is left of connections that have ended is in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        return errno.EADDRNOTAVAIL
    except OSError as error:
        return error.errno
    return None


def _sentence(protocol: str, host: str, port: int, reason: int | None) -> str:
    cannot = f"cannot listen for {protocol} on {host}:{port}"
    flag = f"--{protocol.lower()}-port"
    if reason == errno.EADDRINUSE:
        return f"{cannot}: another process uses the port; stop it, or choose another port with {flag}"
    if reason == errno.EACCES:
        return f"{cannot}: this user may not use the port; choose one above 1023 with {flag}"
    why = "the address is not one of this machine" if reason is None else os.strerror(reason)
    return f"{cannot}: {why}; choose another address with --host"
