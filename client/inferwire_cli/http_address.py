"""The address of a server's HTTP, given that of its gRPC."""

from __future__ import annotations

from dataclasses import dataclass

from inferwire.transport.address import DEFAULT_PORT, Address
from inferwire_cli.terminal import MisuseError

DEFAULT_HTTP_PORT = 8000
_TLS_SCHEME, _PLAIN_SCHEME = "https://", "http://"


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """A host, a port, and whether the server speaks TLS there."""

    host: str
    port: int
    is_secure: bool = False

    def __str__(self) -> str:
        return f"{_TLS_SCHEME if self.is_secure else ''}{self._place}"

    @property
    def other(self) -> str:
        """The same host and port, with TLS if this is without and without if it is with, as an option takes it."""
        return f"{_PLAIN_SCHEME if self.is_secure else _TLS_SCHEME}{self._place}"

    @property
    def _place(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def http_address(given: str | None, grpc: Address) -> HttpAddress:
    """Read --http-address; without one, port 8000 of the host whose gRPC is at its usual port.

    Unless the option has a scheme, it is HTTPS if gRPC has TLS: a server has TLS for both or for neither, and a key
    that was meant for TLS must not be sent without it. If gRPC is at another port, HTTP is likely to be at another
    one, too, and another server may be at 8000.

    Raises:
        MisuseError: If the option is no address, or there is none and the address of gRPC does not tell it.
    """
    if given:
        is_secure = given.startswith(_TLS_SCHEME) or (grpc.is_secure and not given.startswith(_PLAIN_SCHEME))
        place = given.removeprefix(_TLS_SCHEME).removeprefix(_PLAIN_SCHEME).rstrip("/")
        host, colon, port = place.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise MisuseError(f"--http-address is '{given}', expected host:port or https://host:port")
        return HttpAddress(host.strip("[]"), int(port), is_secure)
    if grpc.target.startswith("unix:"):
        raise MisuseError(f"a server at {grpc} is reached over HTTP too: give --http-address host:port")
    host, _, port = grpc.target.rpartition(":")
    if int(port) != DEFAULT_PORT:
        raise MisuseError(
            f"a server whose gRPC is at {grpc} may have its HTTP at any port: give --http-address {host}:PORT; the "
            "line 'listening' in the server's log has it"
        )
    return HttpAddress(host.strip("[]"), DEFAULT_HTTP_PORT, grpc.is_secure)
