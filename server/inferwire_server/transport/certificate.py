"""Reads of a certificate what kind of key it is for, of which gRPC's TLS library takes few, and when it ends."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterator
from datetime import UTC, datetime

_PEM = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END", re.DOTALL)
_VERSION, _OBJECT_ID = 0xA0, 0x06
_VALIDITY, _KEY = 3, 5
"""Where a certificate says when it is good, and names its key's kind.

It says its number, signature, issuer, validity, subject and key.
"""

_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""How times are written, by their tags (RFC 5280, 4.1.2.5)."""

_RSA = bytes.fromhex("2a864886f70d010101")
_ELLIPTIC = bytes.fromhex("2a8648ce3d0201")
_P256, _P384 = bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2b81040022")
_FOR_GRPC = ([_RSA], [_ELLIPTIC, _P256], [_ELLIPTIC, _P384])


def is_for_grpc(certificates: bytes) -> bool:
    """Say whether gRPC's own clients take the key of the first of these certificates."""
    first = _PEM.search(certificates)
    try:
        return first is not None and _kind(_fields(a2b_base64(first[1]))) in _FOR_GRPC
    except (ValueError, IndexError):
        return False  # it is not in DER, and gRPC takes nothing else


def ends_at(certificates: bytes) -> float | None:
    """Say when the first of these certificates ends, in seconds since the epoch; None where it cannot be read."""
    first = _PEM.search(certificates)
    try:
        if first is None:
            return None
        _, (tag, written) = _elements(_fields(a2b_base64(first[1]))[_VALIDITY])
        return datetime.strptime(written.decode(), _TIMES[tag]).replace(tzinfo=UTC).timestamp()
    except (ValueError, LookupError):
        return None


def _fields(certificate: bytes) -> list[bytes]:
    """Give what a certificate says, but for its version."""
    (_, whole), *_ = _elements(certificate)
    (_, signed), *_ = _elements(whole)
    return [content for tag, content in _elements(signed) if tag != _VERSION]


def _kind(fields: list[bytes]) -> list[bytes]:
    """Give the object ids that name the key's algorithm, and its curve if it has one."""
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
