"""The server that a command line names, and how to connect to it. Needs the extra `cli`."""

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

    Each of its methods raises `MisuseError` if keys or certificates from the command line or the environment cannot be
    used.
    """

    address: Address
    root_certificates: Path | None

    def calls(self) -> OperatorCalls:
        """Give the calls that operators make to it."""
        return OperatorCalls(self.address, self._credentials())

    def core(self) -> Core:
        """Give a `Core` of it, as programs use it."""
        return Core(transport=GrpcTransport(self.address, credentials=self._credentials()))

    def http(self, given: str | None) -> ServerHttp:
        """Give its HTTP, at --http-address or at the address that its gRPC address implies."""
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
        MisuseError: If it is no address.
    """
    try:
        return NamedServer(parse_address(address), root_certificates)
    except ValueError as error:
        raise MisuseError(str(error)) from error


def _misuse(error: ValueError) -> MisuseError:
    """Name certificates that cannot be used by the command line's flag, and not by the SDK's argument."""
    return MisuseError(str(error).replace("root_certificates", "--root-certificates", 1))
