"""Listening sockets of either transport: how they are opened, and in one sentence why one cannot be."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import closing
from typing import Any

BACKLOG = 2048
"""How many connections may wait to be taken, at any of the server's sockets."""

_PROBES = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}
"""TCP keepalive of silent peers: probe after so many seconds, then again after so many, and give up after so many."""

NO_SUCH_NAME = -1
"""Stands among the system's numbers for a host that has no address."""


class CannotListen(OSError):
    """The server's address cannot be bound."""

    def __init__(self, protocol: str, host: str, port: int, reason: int | None) -> None:
        self._sentence = _sentence(protocol, host, port, reason)
        super().__init__(reason, self._sentence)

    def __str__(self) -> str:
        return self._sentence


class CannotListenAt(CannotListen):
    """One of the server's Unix sockets cannot be made; `cannot` says which."""

    def __init__(self, cannot: str, why: str) -> None:
        self._sentence = f"{cannot}: {why}; choose another path with --grpc-socket"
        OSError.__init__(self, None, self._sentence)


def authority(host: str, port: int) -> str:
    """Write where a server listens, as URLs have it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen(protocol: str, host: str, port: int, *, shares_port: bool) -> socket.socket:
    """Listen on a port, which other processes may share; port 0 takes a free one.

    Raises:
        CannotListen: It cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # '::' is every address of either family.
    is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server(
            (host, port), family=family, backlog=BACKLOG, reuse_port=shares_port, dualstack_ipv6=is_dual
        )
    except UnicodeError as error:
        raise CannotListen(protocol, host, port, NO_SUCH_NAME) from error
    except OSError as error:
        # Python gives a resolver's errors, whose numbers are negative, as the system's.
        reason = NO_SUCH_NAME if error.errno is not None and error.errno < 0 else error.errno
        raise CannotListen(protocol, host, port, reason) from error
    # Connections inherit these options from their listener.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES.items():
        listener.setsockopt(socket.IPPROTO_TCP, option, value)
    return listener


def require_free(protocol: str, host: str, port: int) -> None:
    """Refuse a port on which another server listens that would share it; 0 is any free one.

    Raises:
        CannotListen: It is not free.
    """
    reason = _reason_not_to_listen(host, port) if port else None
    if reason is not None:
        raise CannotListen(protocol, host, port, reason)


def _reason_not_to_listen(host: str, port: int) -> int | None:
    """Try an address: give the system's number for why it cannot be had, if so.

    A port at which another process listens is one, even if that would share it.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return NO_SUCH_NAME
    reasons = [_reason_not_to_bind(family, address) for family, *_, address in found]
    # One address of a name is enough, even if its others cannot be had.
    return None if None in reasons else reasons[0]


def _reason_not_to_bind(family: int, address: Any) -> int | None:
    try:
        with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            # Connections that have ended and are in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.errno
    return None


def _sentence(protocol: str, host: str, port: int, reason: int | None) -> str:
    bare = host.removeprefix("[").removesuffix("]")
    cannot = f"cannot listen for {protocol} on {authority(bare, port)}"
    flag = f"--{protocol.lower()}-port"
    if reason == errno.EADDRINUSE:
        return f"{cannot}: another process uses the port; stop it, or choose another port with {flag}"
    if reason == errno.EACCES:
        return f"{cannot}: this user may not use the port; choose one above 1023 with {flag}"
    if reason == NO_SUCH_NAME and bare != host:
        return f"{cannot}: an IPv6 address has brackets only where a port follows it; give --host {bare}"
    if reason == NO_SUCH_NAME:
        return f"{cannot}: there is no host of this name; choose another address with --host"
    why = "the address is not one of this machine" if reason is None else os.strerror(reason)
    return f"{cannot}: {why}; choose another address with --host"
