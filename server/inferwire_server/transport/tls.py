"""The certificate that both ports show."""

from __future__ import annotations

import os
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from inferwire_server.errors import invalid_input
from inferwire_server.transport.certificate_key import is_for_grpc


class Tls:
    """A certificate and its key, read from files, and again when these are renewed. Open connections go on."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read them.

        Raises:
            ServingError: INVALID_INPUT if they cannot be read, do not belong together, or are not for gRPC.
        """
        self._certificate = certificate
        self._key = key
        self._shown = self._read()
        self.http = _context()
        self.http.sni_callback = self._show

    def __repr__(self) -> str:
        return f"<Tls: {self._certificate}>"

    @property
    def files(self) -> tuple[Path, Path]:
        """The certificate's file and the key's."""
        return self._certificate, self._key

    @property
    def grpc(self) -> grpc.ServerCredentials:
        """What a gRPC port is opened with. It asks at each connection whether there is another certificate."""
        shown = self._shown

        def renewed() -> Any:
            nonlocal shown
            if shown is self._shown:
                return None
            shown = self._shown
            return shown.grpc

        return grpc.dynamic_ssl_server_credentials(shown.grpc, renewed)

    def renew(self) -> bool:
        """Read the files again, and say whether they are others; if they cannot be used, nothing changes.

        Raises:
            ServingError: INVALID_INPUT, as at first.
        """
        before, self._shown = self._shown, self._read()
        return self._shown.pems != before.pems

    def _show(self, connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        """Have an HTTPS connection show what is shown now; whether it names a host or not, it comes by here.

        A context into which another certificate is loaded keeps the one before, where its key is of another kind.
        """
        connection.context = self._shown.http

    def _read(self) -> _Shown:
        try:
            return _shown(_Pems(self._certificate.read_bytes(), self._key.read_bytes()))
        except (OSError, _Unusable) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise invalid_input(
                f"--tls-certificate is '{self._certificate}', --tls-key is '{self._key}', and TLS cannot be spoken "
                f"with them: {reason}"
            ) from error


@dataclass(frozen=True, slots=True)
class _Pems:
    """What the files held."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class _Shown:
    """One certificate, as each port takes it."""

    pems: _Pems
    http: ssl.SSLContext
    grpc: grpc.ServerCertificateConfiguration


class _Unusable(Exception):
    """What the files hold is none for both ports, for this reason."""


def _shown(pems: _Pems) -> _Shown:
    context = _context()
    with _as_file(pems.certificate) as certificate, _as_file(pems.key) as key:
        context.load_cert_chain(certificate, key, password=_no_password)
    if not is_for_grpc(pems.certificate):
        raise _Unusable("gRPC speaks with no key of this kind, expected RSA, or ECDSA on the curve P-256 or P-384")
    return _Shown(pems, context, grpc.ssl_server_certificate_configuration([(pems.key, pems.certificate)]))


@contextmanager
def _as_file(content: bytes) -> Generator[str]:
    """Give a path to what was read: the TLS library takes files alone, and those on disk may be others by then."""
    with os.fdopen(os.memfd_create("inferwire-tls"), "wb", buffering=0) as file:
        file.write(content)
        yield f"/proc/self/fd/{file.fileno()}"


def _no_password() -> bytes:
    raise _Unusable("the key is encrypted, expected one that is not")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
