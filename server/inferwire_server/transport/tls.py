"""The certificate that both ports show."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import grpc

from inferwire_server.errors import invalid_input


class Tls:
    """A certificate and its key, read from files, and again when these are renewed. Open connections go on."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read them.

        Raises:
            ServingError: INVALID_INPUT if they cannot be read, or do not belong together.
        """
        self._certificate = certificate
        self._key = key
        self.http = _context()
        self._grpc = self._read()

    def __repr__(self) -> str:
        return f"<Tls: {self._certificate}>"

    @property
    def files(self) -> tuple[Path, Path]:
        """The certificate's file and the key's."""
        return self._certificate, self._key

    @property
    def grpc(self) -> grpc.ServerCredentials:
        """What a gRPC port is opened with. It asks at each connection whether there is another certificate."""
        shown = self._grpc

        def renewed() -> Any:
            nonlocal shown
            if shown is self._grpc:
                return None
            shown = self._grpc
            return shown

        return grpc.dynamic_ssl_server_credentials(shown, renewed)

    def renew(self) -> bool:
        """Read the files again, and say whether they are others; if they cannot be used, nothing changes.

        Raises:
            ServingError: INVALID_INPUT, as at first.
        """
        shown = self._shown
        self._grpc = self._read()
        return self._shown != shown

    def _read(self) -> grpc.ServerCertificateConfiguration:
        try:
            # What is wrong with the files must not reach the context that is in use.
            for context in (_context(), self.http):
                context.load_cert_chain(self._certificate, self._key, password=_no_password)
            self._shown = self._key.read_bytes(), self._certificate.read_bytes()
            return grpc.ssl_server_certificate_configuration([self._shown])
        except (OSError, _Encrypted) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise invalid_input(
                f"--tls-certificate is '{self._certificate}', --tls-key is '{self._key}', and TLS cannot be spoken "
                f"with them: {reason}"
            ) from error


class _Encrypted(Exception):
    """The key needs a password."""


def _no_password() -> bytes:
    raise _Encrypted("the key is encrypted, expected one that is not")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
