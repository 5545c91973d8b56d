"""What kind of key a certificate is for, of which gRPC's TLS library takes few."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterator

_PEM = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END", re.DOTALL)
_VERSION, _OBJECT_ID = 0xA0, 0x06
_KEY = 5
"""Where a certificate names its key's kind: after its number, signature, issuer, validity and subject."""

_RSA = bytes.fromhex("2a864886f70d010101")
_ELLIPTIC = bytes.fromhex("2a8648ce3d0201")
_P256, _P384 = bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2b81040022")
_FOR_GRPC = ([_RSA], [_ELLIPTIC, _P256], [_ELLIPTIC, _P384])


def is_for_grpc(certificates: bytes) -> bool:
    """Say whether gRPC's own clients take the key of the first of these certificates."""
    first = _PEM.search(certificates)
    try:
        return first is not None and _kind(a2b_base64(first[1])) in _FOR_GRPC
    except (ValueError, IndexError):
        return False  # it is not in DER, which gRPC takes alone


def _kind(certificate: bytes) -> list[bytes]:
    """Give the object ids that name the key's algorithm, and its curve if it has one."""
    (_, whole), *_ = _elements(certificate)
    (_, signed), *_ = _elements(whole)
    fields = [content for tag, content in _elements(signed) if tag != _VERSION]
    (_, algorithm), _ = _elements(fields[_KEY])
    return [content for tag, content in _elements(algorithm) if tag == _OBJECT_ID]


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Walk over elements of DER that lie one after the other: the tag of each, and what it holds."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length >= 0x80:
            at += (digits := length - 0x80)
            length = int.from_bytes(der[at - digits : at])
        yield tag, der[at : at + length]
        at += length
