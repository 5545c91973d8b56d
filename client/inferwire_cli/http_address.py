"""Where a server's HTTP is, beside its gRPC."""

from __future__ import annotations

from http.client import BadStatusLine, HTTPException

from inferwire.errors import ServerUnavailable
from inferwire.transport.address import DEFAULT_PORT, Address
from inferwire_cli.terminal import MisuseError

DEFAULT_HTTP_PORT = 8000


def http_address(given: str | None, grpc: Address) -> tuple[str, int]:
    """Read --http-address; without one, port 8000 of the host whose gRPC is at its usual port.

    A server at another port is likely to have another for HTTP, too, and at 8000 there may be another server.

    Raises:
        MisuseError: If it is none, or it cannot be told from where gRPC is.
    """
    if given:
        host, colon, port = given.removeprefix("http://").rstrip("/").rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise MisuseError(f"--http-address is '{given}', expected host:port")
        return host.strip("[]"), int(port)
    if grpc.target.startswith("unix:"):
        raise MisuseError(f"a server at {grpc} is reached over HTTP too: give --http-address host:port")
    host, _, port = grpc.target.rpartition(":")
    if int(port) != DEFAULT_PORT:
        raise MisuseError(
            f"a server whose gRPC is at {grpc} may have its HTTP at any port: give --http-address {host}:PORT, "
            "which its log says as it begins to listen"
        )
    return host.strip("[]"), DEFAULT_HTTP_PORT


def no_http(host: str, port: int, error: OSError | HTTPException) -> ServerUnavailable:
    """Say that nobody speaks HTTP at an address, and what to do."""
    if isinstance(error, BadStatusLine) and not isinstance(error, OSError):
        return ServerUnavailable(f"what answers at {host}:{port} speaks no HTTP: give the server's HTTP port")
    return ServerUnavailable(
        f"no HTTP server answers at {host}:{port}; give --http-address, or start one with `inferwire serve` ({error})"
    )
