"""The certificate that both ports show."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inferwire_proto.host.bounded_files import read_bounded
from inferwire_server.errors import invalid_input
from inferwire_server.transport.certificate import ends_at, is_for_grpc

_HTTP, _GRPC = "http/1.1", "h2"
"""What the ports speak, by the names of TLS's protocol negotiation (ALPN)."""

_CERTIFICATE = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----")
_PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----")
"""How what the files are to hold begins in PEM."""

_STRANGERS = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""What the TLS library says of a certificate and the key of another, of the same kind or not."""


class Tls:
    """A certificate and its key, read from files, and again when these are renewed. Open connections go on.

    Attributes:
        http: What the HTTP port is opened with.
        grpc: What the gRPC port is opened with.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read them.

        Raises:
            ServingError: INVALID_INPUT if they cannot be read, do not belong together, or are not for gRPC.
        """
        self._certificate = certificate
        self._key = key
        self._shown = self._read()
        self.http = _front(_HTTP, lambda: self._shown.http)
        self.grpc = _front(_GRPC, lambda: self._shown.grpc)

    def __repr__(self) -> str:
        return f"<Tls: {self._certificate}>"

    @property
    def files(self) -> tuple[Path, Path]:
        """The certificate's file and the key's."""
        return self._certificate, self._key

    @property
    def ends_at(self) -> float | None:
        """When the certificate ends, in seconds since the epoch; None if that cannot be read."""
        return ends_at(self._shown.pems.certificate)

    def renew(self) -> bool:
        """Read the files again, and say whether they have changed; if they cannot be used, nothing changes here.

        Raises:
            ServingError: INVALID_INPUT, as at first.
        """
        before, self._shown = self._shown, self._read()
        return self._shown.pems != before.pems

    def _read(self) -> _Shown:
        pems = _Pems(_content("--tls-certificate", self._certificate), _content("--tls-key", self._key))
        try:
            return _shown(pems)
        except (OSError, _Unusable) as error:
            raise invalid_input(self._why_not(pems, error)) from error

    def _why_not(self, pems: _Pems, error: Exception) -> str:
        """Say which file is to blame, where that is known: the TLS library names none."""
        certificate, key = f"--tls-certificate is '{self._certificate}'", f"--tls-key is '{self._key}'"
        if not _CERTIFICATE.search(pems.certificate):
            return f"{certificate}, which has no certificate in it, expected one in PEM"
        if not _PRIVATE_KEY.search(pems.key):
            return f"{key}, which has no private key in it, expected one in PEM"
        if isinstance(error, ssl.SSLError) and error.reason in _STRANGERS:
            return f"{key}, which is not the key of --tls-certificate '{self._certificate}'"
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"{certificate}, {key}, and TLS cannot be spoken with them: {reason}"


def _content(flag: str, file: Path) -> bytes:
    try:
        return read_bounded(file)
    except OSError as error:
        raise invalid_input(f"{flag} is '{file}', which cannot be read: {error.strerror}") from error


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
    grpc: ssl.SSLContext


class _Unusable(Exception):
    """What the files hold cannot be used for both ports, for this reason."""


def _shown(pems: _Pems) -> _Shown:
    contexts = _context(_HTTP), _context(_GRPC)
    for context in contexts:
        with _as_file(pems.certificate) as certificate, _as_file(pems.key) as key:
            context.load_cert_chain(certificate, key, password=_no_password)
    if not is_for_grpc(pems.certificate):
        raise _Unusable("gRPC speaks with no key of this kind, expected RSA, or ECDSA on the curve P-256 or P-384")
    return _Shown(pems, *contexts)


@contextmanager
def _as_file(content: bytes) -> Generator[str]:
    """Give a path to what was read: the TLS library takes only files, and those on disk may have changed since."""
    with os.fdopen(os.memfd_create("inferwire-tls"), "wb", buffering=0) as file:
        file.write(content)
        yield f"/proc/self/fd/{file.fileno()}"


def _no_password() -> bytes:
    raise _Unusable("the key is encrypted, expected one that is not")


def _front(protocol: str, shown: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Make the context with which a port is opened: each connection shows the certificate that is current then.

    It does so whether the peer names a host or not. The certificate is not loaded into this context itself, because a
    context keeps its certificate beside a new one whose key is of another kind.
    """

    def show(connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        connection.context = shown()

    front = _context(protocol)
    front.sni_callback = show
    return front


def _context(protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    return context
