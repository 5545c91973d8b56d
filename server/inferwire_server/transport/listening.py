"""Listening sockets of either transport: how they are opened, and in one sentence why one cannot be."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, TypeAlias

BACKLOG = 2048
"""How many connections may wait to be taken, at any of the server's sockets."""

_PROBES = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}
"""TCP keepalive of silent peers: probe after so many seconds, then again after so many, and give up after so many."""

NO_SUCH_NAME = -1
"""Stands among the system's numbers for a host that has no address."""


class Address(NamedTuple):
    """An address and its family, both as the system has them."""

    family: int
    where: Any


Resolve: TypeAlias = Callable[[str, int], Sequence[Address]]
"""Gives the addresses of a host, with a port."""


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


def addresses_of(host: str, port: int) -> Sequence[Address]:
    """Give the addresses of a host, in the system's order.

    Raises:
        OSError: It has none. The number is the resolver's, which is negative.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [Address(family, where) for family, *_, where in found]


def listen(protocol: str, host: str, port: int, *, shares_port: bool, resolve: Resolve = addresses_of) -> socket.socket:
    """Listen on a port, which other processes may share; port 0 takes a free one.

    Of a name's addresses it is the first of IPv4, or of IPv6 if there is no other.

    Raises:
        CannotListen: It cannot be had.
    """
    with _saying_why_not(protocol, host, port):
        address = _first(resolve(host, port))
        listener = socket.create_server(
            address.where,
            family=address.family,
            backlog=BACKLOG,
            reuse_port=shares_port,
            dualstack_ipv6=_is_dual(address.family),
        )
    # Connections inherit these options from their listener.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES.items():
        listener.setsockopt(socket.IPPROTO_TCP, option, value)
    return listener


def require_free(protocol: str, host: str, port: int, *, resolve: Resolve = addresses_of) -> None:
    """Refuse a port on which another server listens that would share it, where this one would; 0 is any free one.

    Raises:
        CannotListen: It is not free.
    """
    if not port:
        return
    with _saying_why_not(protocol, host, port):
        address = _first(resolve(host, port))
        with closing(socket.socket(address.family, socket.SOCK_STREAM)) as probe:
            # Connections that have ended and are in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if address.family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not _is_dual(address.family))
            probe.bind(address.where)


def _first(addresses: Sequence[Address]) -> Address:
    return min(addresses, key=lambda address: address.family != socket.AF_INET)


def _is_dual(family: int) -> bool:
    """Whether '::' is every address of either family."""
    return family == socket.AF_INET6 and socket.has_dualstack_ipv6()


@contextmanager
def _saying_why_not(protocol: str, host: str, port: int) -> Generator[None]:
    """Raise CannotListen for whatever the system says."""
    try:
        yield
    except UnicodeError as error:
        raise CannotListen(protocol, host, port, NO_SUCH_NAME) from error
    except OSError as error:
        # Python gives a resolver's errors, whose numbers are negative, as the system's.
        reason = NO_SUCH_NAME if error.errno is not None and error.errno < 0 else error.errno
        raise CannotListen(protocol, host, port, reason) from error


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
