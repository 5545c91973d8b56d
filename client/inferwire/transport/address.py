"""Where a server is: reads what a user or the environment gives as an address."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

ENVIRONMENT_VARIABLE = "INFERWIRE_ADDRESS"
DEFAULT_ADDRESS = "localhost:8001"
DEFAULT_PORT = 8001
TLS_SCHEME = "grpcs://"
_PLAIN_SCHEME, _UNIX_SCHEME = "grpc://", "unix:"


SocketPlace: TypeAlias = tuple[str, int] | str
"""Where a socket is: a host and a port, or a file."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address.

    Attributes:
        target: What gRPC dials, as "localhost:8001" or "unix:/run/inferwire.sock".
        is_secure: Whether the connection uses TLS.
        is_grpc_alone: Whether nothing but gRPC is to be spoken.
    """

    target: str
    is_secure: bool = False
    is_grpc_alone: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where no proxy is in between."""
        host = self.target.rpartition(":")[0]
        return host in ("unix", "localhost", "[::1]") or host.startswith(("unix:", "127."))

    @property
    def place(self) -> SocketPlace:
        """Where sockets are connected to."""
        if self.target.startswith(_UNIX_SCHEME):
            return self.target.removeprefix(_UNIX_SCHEME)
        return self.host, int(self.target.rpartition(":")[2])

    @property
    def host(self) -> str:
        """The name of the host, or its address; "unix" for a file."""
        return self.target.rpartition(":")[0].removeprefix("[").removesuffix("]")

    def __str__(self) -> str:
        return TLS_SCHEME + self.target if self.is_secure else self.target


def place_text(place: SocketPlace) -> str:
    """Write where a socket is."""
    return place if isinstance(place, str) else "{}:{}".format(*place)


def addresses_of(place: SocketPlace) -> Sequence[SocketPlace]:
    """Give each address of a host that has several, as replicas have: gRPC does not say which one it has connected to.

    Raises:
        OSError: If there is no such host.
    """
    if isinstance(place, str):
        return (place,)
    found = {each[4][:2]: None for each in socket.getaddrinfo(*place, type=socket.SOCK_STREAM)}
    return [(str(host), int(port)) for host, port in found] if len(found) > 1 else (place,)


def parse_address(given: str | os.PathLike[str] | None = None) -> Address:
    """Read an address; without one, the environment's, else the default.

    Args:
        given: "host:port", "host" (port 8001), "grpcs://host:port" for TLS, "unix:path", or "grpc://host:port" for
            gRPC and nothing beside it.

    Raises:
        ValueError: If it is none of these.
    """
    text = os.fspath(given) if given else os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_ADDRESS
    if text.startswith(_UNIX_SCHEME):
        if text == _UNIX_SCHEME:
            raise ValueError(f"address {text!r} has no path, expected unix:path")
        return Address(text)
    if text.startswith(TLS_SCHEME):
        return Address(_host_and_port(text, text.removeprefix(TLS_SCHEME)), is_secure=True)
    is_grpc_alone = text.startswith(_PLAIN_SCHEME)
    return Address(_host_and_port(text, text.removeprefix(_PLAIN_SCHEME)), is_grpc_alone=is_grpc_alone)


def _host_and_port(text: str, authority: str) -> str:
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, str(DEFAULT_PORT)
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not host or "/" in authority or (":" in host and not is_bracketed):
        forms = "host:port, grpc://host:port, grpcs://host:port or unix:path"
        raise ValueError(f"address {text!r} is not {forms}{_hint(text, authority)}")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"address {text!r} has port {port!r}, expected a number from 1 to 65535")
    return f"{host}:{port}"


def _hint(text: str, authority: str) -> str:
    if text.startswith(("http://", "https://")):
        return f"; URLs are for REST calls: give the host and its gRPC port, as {DEFAULT_ADDRESS}"
    return "; it has a '/' behind its host" if "/" in authority else ""
