"""What is taken for a key and for certificates, and where they are found."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

import inferwire as ov
from inferwire.transport.address import parse_address
from inferwire.transport.credentials import (
    API_KEY_VARIABLE,
    ROOT_CERTIFICATES_VARIABLE,
    Credentials,
    credentials_for,
    find_credentials,
)

PLAIN, SECURE = parse_address("host:8001"), parse_address("grpcs://host:8001")


@pytest.fixture(scope="module")
def pem() -> bytes:
    return trustme.CA().cert_pem.bytes()


@pytest.fixture
def roots(tmp_path: Path, pem: bytes) -> Path:
    path = tmp_path / "roots.pem"
    path.write_bytes(pem)
    return path


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (API_KEY_VARIABLE, ROOT_CERTIFICATES_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_without_any_nothing_is_shown_and_the_system_is_trusted() -> None:
    found = credentials_for(SECURE)
    assert found == Credentials(None, None)
    assert (found.metadata, found.headers) == ((), {})
    assert found.tls_context().verify_mode is ssl.CERT_REQUIRED
    assert found.tls_context().check_hostname


def test_a_key_is_shown_as_a_bearer(environment: pytest.MonkeyPatch) -> None:
    environment.setenv(API_KEY_VARIABLE, "theirs")
    assert credentials_for(PLAIN).metadata == (("authorization", "Bearer theirs"),)
    assert credentials_for(PLAIN, "mine").metadata == (("authorization", "Bearer mine"),)
    assert credentials_for(PLAIN, "mine").headers == {"Authorization": "Bearer mine"}


def test_what_is_empty_is_as_not_given(environment: pytest.MonkeyPatch, roots: Path) -> None:
    for name in (API_KEY_VARIABLE, ROOT_CERTIFICATES_VARIABLE):
        environment.setenv(name, "")
    assert credentials_for(SECURE) == credentials_for(SECURE, "", "") == Credentials()
    environment.setenv(API_KEY_VARIABLE, "theirs")
    assert credentials_for(SECURE, "").api_key == "theirs"
    environment.setenv(ROOT_CERTIFICATES_VARIABLE, str(roots))
    assert credentials_for(SECURE, "", "").root_certificates is not None


def without_identifiers(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make an authority that gives its keys no identifiers; give its certificate, and a server's that it signed."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in ("authority", "server")]
    now = datetime.now(UTC)
    for name, key, is_authority in zip(names, keys, (True, False), strict=True):
        made = x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        made = made.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("server")]), critical=False)
        signed = made.sign(keys[0], SHA256()).public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{'roots' if is_authority else 'server'}.pem").write_bytes(private * (not is_authority) + signed)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return folder / "roots.pem", context


def shake_hands(trusting: ssl.SSLContext, serving: ssl.SSLContext) -> None:
    """Let a client and a server agree on TLS, without a socket in between."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(down, up, server_hostname="server")
    server = serving.wrap_bio(up, down, server_side=True)
    for end in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert client.version() == server.version() is not None


def test_an_authority_without_identifiers_is_trusted_as_by_grpc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by_python = ssl.create_default_context

    def of_python_3_13(**arguments: Any) -> ssl.SSLContext:
        context = made_by_python(**arguments)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", of_python_3_13)
    roots, serving = without_identifiers(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="Missing"):
        shake_hands(of_python_3_13(cafile=roots), serving)
    shake_hands(credentials_for(SECURE, root_certificates=roots).tls_context(), serving)
    # Whoever trusts those of the system is as strict as the system.
    assert credentials_for(SECURE).tls_context().verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize("form", [str, Path])
def test_certificates_are_read_from_a_file(roots: Path, pem: bytes, form: type[Any]) -> None:
    found = credentials_for(SECURE, root_certificates=form(roots))
    assert found.root_certificates == pem
    assert len(found.tls_context().get_ca_certs()) == 1


def test_those_given_come_before_those_of_the_environment(
    environment: pytest.MonkeyPatch, roots: Path, pem: bytes
) -> None:
    environment.setenv(ROOT_CERTIFICATES_VARIABLE, "nowhere.pem")
    assert credentials_for(SECURE, root_certificates=roots).root_certificates == pem
    environment.setenv(ROOT_CERTIFICATES_VARIABLE, str(roots))
    assert credentials_for(SECURE).root_certificates == pem


def test_what_stands_between_certificates_does_not_matter(roots: Path, pem: bytes) -> None:
    roots.write_bytes("# Autorität: Müller\n".encode() + pem + pem)
    found = credentials_for(SECURE, root_certificates=roots)
    assert found.tls_context().get_ca_certs()


def test_the_environments_certificates_are_not_looked_for_without_tls(environment: pytest.MonkeyPatch) -> None:
    environment.setenv(ROOT_CERTIFICATES_VARIABLE, "nowhere.pem")
    assert credentials_for(PLAIN) == credentials_for(parse_address("unix:/run/inferwire.sock")) == Credentials()
    assert find_credentials(is_secure=False) == Credentials()


@pytest.mark.parametrize("address", ["host:8001", "grpc://host:8001", "unix:/run/inferwire.sock"])
def test_certificates_that_are_given_want_an_address_with_tls(roots: Path, address: str) -> None:
    with pytest.raises(ValueError, match=r"without TLS, expected one that begins with grpcs://"):
        ov.Core(address, root_certificates=roots)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("s3cret\n", "has whitespace among its 7 characters"),
        ("s3 cret", "has whitespace among its 7 characters"),
        ("s3\u00a0cret", "has whitespace among its 7 characters"),
        ("s3cr\u00e9t", "has characters that a header cannot carry among its 6"),
        ("s3cret\x7f", "has characters that a header cannot carry among its 7"),
    ],
)
def test_a_key_that_no_header_carries_is_refused_and_not_told(
    environment: pytest.MonkeyPatch, key: str, said: str
) -> None:
    with pytest.raises(ValueError, match=f"^api_key {said}") as given:
        ov.Core("host:8001", api_key=key)
    environment.setenv(API_KEY_VARIABLE, key)
    with pytest.raises(ValueError, match=f"^{API_KEY_VARIABLE} {said}") as found:
        ov.Core("host:8001")
    assert not any("s3" in str(each.value) for each in (given, found))


def test_a_key_is_printed_nowhere() -> None:
    core = ov.Core("host:8001", api_key="s3cret")
    assert "s3cret" not in repr(core)
    assert "s3cret" not in repr(Credentials("s3cret", b"s3cret"))


@pytest.mark.parametrize("content", [b"", b"s3cret", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_file_without_certificates_is_named(environment: pytest.MonkeyPatch, roots: Path, content: bytes) -> None:
    roots.write_bytes(content)
    said = f"is '{roots}', which has no certificate in it, expected a PEM file with some$"
    with pytest.raises(ValueError, match=f"^root_certificates {said}"):
        ov.Core("grpcs://host", root_certificates=roots)
    environment.setenv(ROOT_CERTIFICATES_VARIABLE, str(roots))
    with pytest.raises(ValueError, match=f"^{ROOT_CERTIFICATES_VARIABLE} {said}"):
        ov.Core("grpcs://host")


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'.*nowhere', which cannot be read: No such file or directory$"):
        ov.Core("grpcs://host", root_certificates=tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"which cannot be read: Is a directory$"):
        ov.Core("grpcs://host", root_certificates=tmp_path)


@pytest.mark.usefixtures("little_memory")
def test_what_has_no_end_is_no_file_of_certificates() -> None:
    with pytest.raises(
        ValueError, match=r"^root_certificates is '/dev/zero', which cannot be read: it is a device with"
    ):
        ov.Core("grpcs://host", root_certificates="/dev/zero")


def test_other_types_are_told_what_is_expected() -> None:
    given: Any = b"s3cret"
    with pytest.raises(TypeError, match=r"^api_key is of type bytes, expected text$"):
        ov.Core("host", api_key=given)
    with pytest.raises(TypeError, match=r"^root_certificates is of type bytes, expected the path of a PEM file$"):
        ov.Core("grpcs://host", root_certificates=given)
