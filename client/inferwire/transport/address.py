"""Where a server is: reads what a user or the environment gives as an address."""

from __future__ import annotations

import os
from dataclasses import dataclass

ENVIRONMENT_VARIABLE = "INFERWIRE_ADDRESS"
DEFAULT_ADDRESS = "localhost:8001"
DEFAULT_PORT = 8001
_TLS_SCHEME, _PLAIN_SCHEME, _UNIX_SCHEME = "grpcs://", "grpc://", "unix:"


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address.

    Attributes:
        target: What gRPC dials, as "localhost:8001" or "unix:/run/inferwire.sock".
        is_secure: Whether the connection uses TLS.
    """

    target: str
    is_secure: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where no proxy is in between."""
        host = self.target.rpartition(":")[0]
        return host in ("unix", "localhost", "[::1]") or host.startswith(("unix:", "127."))

    def __str__(self) -> str:
        return _TLS_SCHEME + self.target if self.is_secure else self.target


def parse_address(given: str | os.PathLike[str] | None = None) -> Address:
    """Read an address; without one, the environment's, else the default.

    Args:
        given: "host:port", "host" (port 8001), "grpcs://host:port" for TLS, or "unix:path".

    Raises:
        ValueError: If it is none of these.
    """
    text = os.fspath(given) if given else os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_ADDRESS
    if text.startswith(_UNIX_SCHEME):
        if text == _UNIX_SCHEME:
            raise ValueError(f"address {text!r} has no path, expected unix:path")
        return Address(text)
    if text.startswith(_TLS_SCHEME):
        return Address(_host_and_port(text, text.removeprefix(_TLS_SCHEME)), is_secure=True)
    return Address(_host_and_port(text, text.removeprefix(_PLAIN_SCHEME)))


def _host_and_port(text: str, authority: str) -> str:
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, str(DEFAULT_PORT)
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not host or "/" in authority or (":" in host and not is_bracketed):
        hint = "; a URL is for REST calls, Core() takes the gRPC port, 8001" if text.startswith("http") else ""
        raise ValueError(f"address {text!r} is not host:port, grpcs://host:port or unix:path{hint}")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"address {text!r} has port {port!r}, expected a number from 1 to 65535")
    return f"{host}:{port}"
