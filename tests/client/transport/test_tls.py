"""A server with TLS and a certificate that no public authority has signed, and what may be wrong with the way to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import DATA, ScriptedServer, content, result, sent, submit
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.address import parse_address
from inferwire.transport.credentials import ROOT_CERTIFICATES_VARIABLE, credentials_for
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.timeouts import Timeouts
from inferwire.transport.unreachable import is_of_names, why_unreachable

Key = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def serving(certificate: trustme.LeafCert) -> ScriptedServer:
    chain = b"".join(each.bytes() for each in certificate.cert_chain_pems)
    return serving_pair((certificate.private_key_pem.bytes(), chain))


def serving_pair(pair: tuple[bytes, bytes]) -> ScriptedServer:
    """Serve with a key and a certificate, in PEM."""
    return ScriptedServer(certificate=grpc.ssl_server_credentials([pair]))


def self_signed(key: Key, address: str | None = "127.0.0.1") -> tuple[bytes, bytes]:
    """Make a certificate for an address, or for what its common name says alone; give the key and it, in PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    if address is not None:
        made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
    signed = made.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256())
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        signed.public_bytes(Encoding.PEM),
    )


@pytest.fixture
def server(private_ca: trustme.CA) -> Iterator[ScriptedServer]:
    with serving(private_ca.issue_cert("127.0.0.1")) as running:
        yield running


def why(address: str, **arguments: Any) -> str:
    """Give what is said where a server cannot be reached."""
    with pytest.raises(ov.ServerUnavailable) as caught:
        ov.Core(address, **arguments).served_model("m")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_where_something_before_the_server_ends_tls_a_session_stays_on_grpc(
    server: ScriptedServer, roots: Path
) -> None:
    server.takes_sockets = True  # and what ends TLS speaks gRPC alone
    address = parse_address(f"grpcs://127.0.0.1:{server.port}")
    outcomes = Endings()
    found = credentials_for(address, "s3cret", roots)
    with closing(GrpcTransport(address, Timeouts(LIMIT_S), found)) as transport:
        submit(transport, outcomes)
        server.answers.put(result(*sent(server)))
        assert content(outcomes.get(timeout=LIMIT_S)) == DATA
    assert server.calls.get(timeout=LIMIT_S)[1]["authorization"] == "Bearer s3cret"


def test_the_environment_may_name_the_certificates(
    server: ScriptedServer, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOT_CERTIFICATES_VARIABLE, str(roots))
    server.unary["ListDevices"] = lambda data, context: b""
    with closing(ov.Core(f"grpcs://127.0.0.1:{server.port}")) as core:
        assert core.available_devices == []


def test_a_certificate_that_is_not_trusted(server: ScriptedServer, tmp_path: Path) -> None:
    address = f"grpcs://127.0.0.1:{server.port}"
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    for arguments in ({}, {"root_certificates": tmp_path / "other.pem"}):
        said = why(address, **arguments)
        assert said.startswith(f"the certificate of the server at {address} is not trusted; give in INFERWIRE_ROOT_")
        assert "or to Core() as root_certificates" in said


def test_a_certificate_for_other_names(private_ca: trustme.CA, roots: Path) -> None:
    with serving(private_ca.issue_cert("elsewhere.example")) as server:
        said = why(f"grpcs://127.0.0.1:{server.port}", root_certificates=roots)
    assert "is for other names; connect to a name that it has" in said


def test_a_certificate_with_a_common_name_alone_is_no_matter_of_keys(tmp_path: Path) -> None:
    pair = self_signed(ec.generate_private_key(ec.SECP256R1()), None)
    (tmp_path / "roots.pem").write_bytes(pair[1])
    with serving_pair(pair) as server:
        said = why(f"grpcs://127.0.0.1:{server.port}", api_key="s3cret", root_certificates=tmp_path / "roots.pem")
    assert "or give the server one that has this name as a subject alternative name" in said


def test_a_servers_own_refusal_is_not_taken_for_grpcs() -> None:
    assert is_of_names("grpcs://host:1", "call host does not match SSL server name")
    assert not is_of_names("host:1", "call host does not match SSL server name")
    assert not is_of_names("grpcs://host:1", "the API key is not one of this server's")


def test_a_certificate_whose_time_is_over(private_ca: trustme.CA, roots: Path) -> None:
    over = private_ca.issue_cert("127.0.0.1", not_after=datetime.now(UTC) - timedelta(days=1))
    with serving(over) as server:
        said = why(f"grpcs://127.0.0.1:{server.port}", root_certificates=roots)
    assert "is not valid at this time; the server needs a new one" in said


@pytest.mark.parametrize(
    ("key", "is_taken"),
    [
        (lambda: rsa.generate_private_key(65537, 2048), True),
        (lambda: ec.generate_private_key(ec.SECP256R1()), True),
        (lambda: ec.generate_private_key(ec.SECP384R1()), True),
        (lambda: ec.generate_private_key(ec.SECP521R1()), False),
        (ed25519.Ed25519PrivateKey.generate, False),
    ],
    ids=["RSA", "P-256", "P-384", "P-521", "Ed25519"],
)
def test_which_keys_grpc_takes_is_said_where_it_takes_none(
    tmp_path: Path, key: Callable[[], Key], is_taken: bool
) -> None:
    pair = self_signed(key())
    (tmp_path / "roots.pem").write_bytes(pair[1])
    with serving_pair(pair) as server:
        address = f"grpcs://127.0.0.1:{server.port}"
        if is_taken:
            server.unary["ListDevices"] = lambda data, context: b""
            with closing(ov.Core(address, root_certificates=tmp_path / "roots.pem")) as core:
                assert core.available_devices == []
            return
        said = why(address, root_certificates=tmp_path / "roots.pem")
    assert said.startswith(f"what listens at {address} closed the connection while TLS was agreed on; gRPC takes cert")
    assert "with RSA, P-256 or P-384 keys alone" in said


def test_a_server_without_tls() -> None:
    with ScriptedServer() as server:
        said = why(f"grpcs://127.0.0.1:{server.port}")
    assert f"speaks no TLS; if it is an inferwire server without, its address is 127.0.0.1:{server.port} (" in said


@pytest.mark.parametrize("scheme", ["", "grpc://"])
def test_a_client_without_tls(server: ScriptedServer, scheme: str) -> None:
    said = why(f"{scheme}127.0.0.1:{server.port}")
    assert said.startswith(f"what listens at 127.0.0.1:{server.port} speaks TLS, and closed the connection of a client")
    assert f"its address is grpcs://127.0.0.1:{server.port} (" in said


@pytest.mark.parametrize(
    ("address", "details", "said"),
    [
        ("host:1", "failed to connect to all addresses: Connection refused", "no inferwire server answers at host:1;"),
        ("host:1", "Socket closed", "no inferwire server answers at host:1;"),
        ("unix:/s", "failed to connect to all addresses: Socket closed", "no inferwire server answers at unix:/s;"),
        # What gRPC said until 1.76, and until 1.80.
        ("grpcs://host:1", "UNKNOWN: Peer name host is not in peer certificate", "the certificate of the server at gr"),
        ("grpcs://host:1", "failed to connect to all addresses: Socket closed", "what listens at grpcs://host:1 clos"),
        ("grpcs://host:1", "Socket closed", "no inferwire server answers at grpcs://host:1;"),
        ("grpcs://host:1", "failed to connect: Connection reset by peer", "no inferwire server answers at grpcs://hos"),
        ("grpcs://host:1", "Cannot check peer: missing selected ALPN property.", "what answers at grpcs://host:1 spe"),
        ("host:1", "Trying to connect an http1.x server", "what answers at host:1 speaks HTTP/1.1 and not gRPC"),
    ],
)
def test_what_gets_which_sentence(address: str, details: str, said: str) -> None:
    assert why_unreachable(address, details).startswith(said)
