"""The server that a command line names, and the ways to it. Needs the extra `cli`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from inferwire.core import Core
from inferwire.transport.address import Address, parse_address
from inferwire.transport.credentials import Credentials, credentials_for, find_credentials
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.operator_calls import OperatorCalls
from inferwire_cli.http_address import http_address
from inferwire_cli.server_http import ServerHttp
from inferwire_cli.terminal import MisuseError


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server's address, and the file of certificates that was named for it, if one was.

    Each of its methods raises `MisuseError` where keys or certificates, of the command line or of the environment,
    cannot be used.
    """

    address: Address
    root_certificates: Path | None = None

    def calls(self) -> OperatorCalls:
        """Give an operator's calls of it."""
        return OperatorCalls(self.address, self._credentials())

    def core(self) -> Core:
        """Give what a program uses it by."""
        return Core(transport=GrpcTransport(self.address, credentials=self._credentials()))

    def http(self, given: str | None) -> ServerHttp:
        """Give its HTTP, at --http-address or where that can be told from where gRPC is."""
        address = http_address(given, self.address)
        if self.root_certificates and not (address.is_secure or self.address.is_secure):
            raise MisuseError(
                f"--root-certificates is given for {address}, which is connected to without TLS; with it, give "
                f"--http-address {address.other}"
            )
        try:
            return ServerHttp(address, find_credentials(None, self.root_certificates, is_secure=address.is_secure))
        except ValueError as error:
            raise _misuse(error) from error

    def _credentials(self) -> Credentials:
        try:
            return credentials_for(self.address, None, self.root_certificates)
        except ValueError as error:
            raise _misuse(error) from error


def named_server(address: str | None, root_certificates: Path | None) -> NamedServer:
    """Read --address; without one, the environment's, else the default.

    Raises:
        MisuseError: If it is none.
    """
    try:
        return NamedServer(parse_address(address), root_certificates)
    except ValueError as error:
        raise MisuseError(str(error)) from error


def _misuse(error: ValueError) -> MisuseError:
    """Name certificates that cannot be used as the command line does, and not as a call of the SDK."""
    return MisuseError(str(error).replace("root_certificates", "--root-certificates", 1))
