"""Kinds of keys for certificates, those that gRPC takes and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
Keys = Mapping[str, Callable[[], PrivateKey]]

KEYS_FOR_GRPC: Keys = {
    "RSA": partial(rsa.generate_private_key, 65537, 2048),
    "ECDSA P-256": partial(ec.generate_private_key, ec.SECP256R1()),
    "ECDSA P-384": partial(ec.generate_private_key, ec.SECP384R1()),
}
OTHER_KEYS: Keys = {
    "ECDSA P-224": partial(ec.generate_private_key, ec.SECP224R1()),
    "ECDSA P-521": partial(ec.generate_private_key, ec.SECP521R1()),
    "ECDSA secp256k1": partial(ec.generate_private_key, ec.SECP256K1()),
    "ECDSA brainpoolP256r1": partial(ec.generate_private_key, ec.BrainpoolP256R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "Ed448": ed448.Ed448PrivateKey.generate,
}


def certificate_for(
    key: PrivateKey, issuer: PrivateKey | None = None, subject: str = "localhost", end: datetime | None = None
) -> x509.Certificate:
    """Make a certificate for a key, signed with itself or the issuer's."""
    signing = issuer or key
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(end or now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(signing, None if isinstance(signing, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else SHA256())
    )
