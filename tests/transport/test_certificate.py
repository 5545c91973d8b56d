"""What kind of key a certificate is for, and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.transport.key_kinds import KEYS_FOR_GRPC, OTHER_KEYS, PrivateKey, certificate_for

from inferwire_server.transport.certificate import ends_at, is_for_grpc


def pem(key: PrivateKey, issuer: PrivateKey | None = None, subject: str = "localhost") -> bytes:
    return certificate_for(key, issuer, subject).public_bytes(Encoding.PEM)


@pytest.mark.parametrize("subject", ["localhost", "x" * 64])
@pytest.mark.parametrize("issuer", [*KEYS_FOR_GRPC, *OTHER_KEYS])
def test_the_key_counts_and_not_who_signed_for_it(issuer: str, subject: str) -> None:
    every = {**KEYS_FOR_GRPC, **OTHER_KEYS}
    assert all(is_for_grpc(pem(make(), every[issuer](), subject)) for make in KEYS_FOR_GRPC.values())
    assert not any(is_for_grpc(pem(make(), every[issuer](), subject)) for make in OTHER_KEYS.values())


def test_the_first_certificate_counts() -> None:
    taken, other = pem(KEYS_FOR_GRPC["RSA"]()), pem(OTHER_KEYS["Ed25519"]())
    assert is_for_grpc(b"what it is for\n" + taken + other)
    assert not is_for_grpc(other + taken)


def test_what_others_call_a_certificate_is_one() -> None:
    for name in (b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE"):
        assert is_for_grpc(pem(KEYS_FOR_GRPC["RSA"]()).replace(b"CERTIFICATE", name).replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("end", [datetime(2049, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)])
def test_the_first_certificate_says_when_it_ends(end: datetime) -> None:
    key = KEYS_FOR_GRPC["ECDSA P-256"]()
    ending = certificate_for(key, end=end).public_bytes(Encoding.PEM)
    assert ends_at(ending + pem(key)) == end.timestamp()


@pytest.mark.parametrize("content", [b"", b"?", b"MA==", b"MIA=", b"MAIwAA==", b"MAYwBAUABQA="])
def test_what_is_no_certificate_is_for_nobody(content: bytes) -> None:
    assert not is_for_grpc(content)
    assert ends_at(content) is None
    assert ends_at(b"-----BEGIN CERTIFICATE-----\n" + content + b"\n-----END CERTIFICATE-----\n") is None
    assert not is_for_grpc(b"-----BEGIN CERTIFICATE-----\n" + content + b"\n-----END CERTIFICATE-----\n")
