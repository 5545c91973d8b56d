"""The key that a client shows to a server, and the certificates by which it trusts one.

Owns where both are found, in arguments or in the environment, and how gRPC and HTTP are given them. No text made here
contains the key, neither a `repr` nor an error message.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from inferwire.transport.address import Address
from inferwire_proto.host.bounded_files import read_bounded

API_KEY_VARIABLE = "INFERWIRE_API_KEY"
ROOT_CERTIFICATES_VARIABLE = "INFERWIRE_ROOT_CERTIFICATES"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key, and the certificates of the authorities that may have signed a server's.

    Attributes:
        api_key: What a server that was started with keys asks for; None if there is none to show.
        root_certificates: In PEM; None for those of the system.
    """

    api_key: str | None = field(default=None, repr=False)
    root_certificates: bytes | None = field(default=None, repr=False)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What every gRPC call carries."""
        return () if self.api_key is None else (("authorization", f"Bearer {self.api_key}"),)

    @property
    def headers(self) -> dict[str, str]:
        """What every HTTP request carries."""
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}

    def tls_context(self) -> ssl.SSLContext:
        """Make the context by which TLS connections other than gRPC's verify the server."""
        if not self.root_certificates:
            return ssl.create_default_context()
        context = ssl.create_default_context(cadata=_text(self.root_certificates))
        # Python sets this flag from 3.13 on, gRPC does not: a private authority that leaves out identifiers of its keys
        # would be trusted over gRPC and not over HTTP.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


def credentials_for(
    address: Address, api_key: str | None = None, root_certificates: str | os.PathLike[str] | None = None
) -> Credentials:
    """Take what was given for a server, else what is in the environment.

    Raises:
        TypeError: For a key that is no text, or certificates that are no path.
        ValueError: For a key that no header can carry, a file without certificates, or certificates that are given for
            an address without TLS.
    """
    if root_certificates and not address.is_secure:
        raise ValueError(
            f"root_certificates is given for the address '{address}', which is connected to without TLS, expected one "
            "that begins with grpcs://"
        )
    return find_credentials(api_key, root_certificates, is_secure=address.is_secure)


def find_credentials(
    api_key: str | None = None, root_certificates: str | os.PathLike[str] | None = None, *, is_secure: bool
) -> Credentials:
    """Take what was given, else what is in the environment. Without TLS, certificates are not looked for.

    Raises:
        TypeError: For a key that is no text, or certificates that are no path.
        ValueError: For a key that no header can carry, or a file without certificates.
    """
    if not isinstance(api_key, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"api_key is of type {type(api_key).__name__}, expected text")
    if not isinstance(root_certificates, str | os.PathLike | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(root_certificates).__name__
        raise TypeError(f"root_certificates is of type {kind}, expected the path of a PEM file")
    named = ("api_key", api_key) if api_key else (API_KEY_VARIABLE, os.environ.get(API_KEY_VARIABLE))
    key = _carried(*named)
    if not is_secure:
        return Credentials(key)
    if root_certificates:
        return Credentials(key, _certificates("root_certificates", os.fspath(root_certificates)))
    path = os.environ.get(ROOT_CERTIFICATES_VARIABLE)
    return Credentials(key, _certificates(ROOT_CERTIFICATES_VARIABLE, path) if path else None)


def _carried(name: str, key: str | None) -> str | None:
    """Check that a header can carry a key."""
    if not key:
        return None
    if any(sign.isspace() for sign in key):
        raise ValueError(
            f"{name} has whitespace among its {len(key)} characters, expected a key without; of one that was read from "
            "a file, strip the end of the line"
        )
    if not (key.isascii() and key.isprintable()):
        raise ValueError(
            f"{name} has characters that a header cannot carry among its {len(key)}, expected letters, digits and "
            "signs of ASCII"
        )
    return key


def _certificates(name: str, path: str) -> bytes:
    """Read a file of certificates."""
    try:
        content = read_bounded(Path(path))
    except OSError as error:
        raise ValueError(f"{name} is '{path}', which cannot be read: {error.strerror}") from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=_text(content))
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(
            f"{name} is '{path}', which has no certificate in it, expected a PEM file with some"
        ) from error
    return content


def _text(pem: bytes) -> str:
    """Leave out characters beyond ASCII, as in remarks between certificates: the standard library takes none."""
    return pem.decode("ascii", "ignore")
