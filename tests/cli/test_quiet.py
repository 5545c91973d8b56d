"""What libraries have to say of their own is not in the server's log, nor before the command's sentence."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import grpc
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tests.client.transport.scripted_server import ScriptedServer
from tests.waiting import LIMIT_S

from inferwire_cli.server_process import end, start, wait_until_ready

VERBOSITY = "GRPC_VERBOSITY"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Start what is started without what a command of this process has set."""
    monkeypatch.delenv(VERBOSITY, raising=False)
    return monkeypatch


def with_common_name(folder: Path) -> tuple[Path, bytes, bytes]:
    """Make a certificate whose common name alone is this machine's; give its file, its key and it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    certificate = made.sign(key, SHA256()).public_bytes(Encoding.PEM)
    (folder / "own.pem").write_bytes(certificate)
    return folder / "own.pem", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), certificate


def models(server: ScriptedServer, roots: Path, **environment: str) -> list[str]:
    """Run a command against a server whose certificate is not to its liking, and give what it writes to stderr."""
    address = f"grpcs://127.0.0.1:{server.port}"
    command = (sys.executable, "-m", "inferwire_cli", "models", "--address", address, "--root-certificates", str(roots))
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()


def test_a_command_writes_its_sentence_alone(tmp_path: Path) -> None:
    roots, key, certificate = with_common_name(tmp_path)
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    with ScriptedServer(certificate=grpc.ssl_server_credentials([(key, certificate)])) as server:
        (said,) = models(server, tmp_path / "other.pem")
        assert "is not trusted" in said
        (said,) = models(server, roots)
        assert "is for other names" in said
        # Whoever looks for what is wrong with gRPC may say so.
        assert len(models(server, roots, **{VERBOSITY: "INFO"})) > 1


@pytest.fixture(params=["1", "2"], ids=["one worker", "two workers"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The log of a server with TLS, once it has ended, whose ports were told what they do not expect."""
    issued = trustme.CA().issue_cert("localhost", "127.0.0.1")
    (tmp_path / "server.pem").write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    tls = ("--tls-certificate", str(tmp_path / "server.pem"), "--tls-key", str(tmp_path / "server.key"))
    with TemporaryFile() as written:
        flags = (*tls, "--allow-uploads", "--workers", request.param, "--log-level", "debug", "--log-format", "json")
        server = start(None, flags, written)
        try:
            wait_until_ready(server, written)
            for data in (b"GET / HTTP/1.1\r\n\r\n", b"no TLS at all"):
                for _ in range(4):
                    say(server.grpc_port, data)
        finally:
            end(server)
        written.seek(0)
        yield written.read().decode().splitlines()


def say(port: int, data: bytes) -> bytes:
    """Say something at a port, and give how the answer begins; nothing where the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
        connection.sendall(data)
        with suppress(ConnectionError):
            return connection.recv(4096)
        return b""


def test_failed_handshakes_leave_the_log_as_it_is(log: list[str]) -> None:
    events: list[dict[str, Any]] = [json.loads(line) for line in log]
    assert "listening" in [each["event"] for each in events]
    assert [each for each in events if each["level"] not in ("debug", "info")] == []


def test_what_is_no_request_leaves_no_line() -> None:
    with TemporaryFile() as written:
        server = start(None, ("--allow-uploads", "--log-level", "debug", "--log-format", "json"), written)
        try:
            wait_until_ready(server, written)
            upgrade = b"GET / HTTP/1.1\r\nHost: box\r\nConnection: upgrade\r\nUpgrade: %b\r\n\r\n"
            for data in (b"no HTTP\r\n\r\n", upgrade % b"websocket", upgrade % b"h2c"):
                assert say(server.http_port, data).startswith(b"HTTP/1.1 ")
        finally:
            end(server)
        written.seek(0)
        events: list[dict[str, Any]] = [json.loads(line) for line in written.read().decode().splitlines()]
    said = [each["event"] for each in events]
    assert "listening" in said
    assert [each for each in said if "pgrade" in each or "WebSocket" in each or "Invalid HTTP" in each] == []
    # Those of grpc, hpack and Pillow, at the level debug.
    assert [each for each in said if "AsyncIOEngine" in each or "cygrpc" in each or "Decoded" in each] == []


LOGGERS = """
import json, logging
from inferwire_server import logs

names = ("uvicorn.error", "grpc._cython.cygrpc", "hpack.hpack", "watchfiles.main", "PIL.PngImagePlugin")
logs.configure("json", "debug")
found = []
for level in ("debug", "warning", "error", "off"):
    logs.set_level(level)
    found.append([logging.getLogger(name).getEffectiveLevel() for name in names])
print(json.dumps(found))
"""


def test_no_library_says_more_than_the_server_is_to() -> None:
    done = subprocess.run((sys.executable, "-c", LOGGERS), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        [40, 30, 30, 30, 30],
        [40, 30, 30, 30, 30],
        [40, 40, 40, 40, 40],
        [51, 51, 51, 51, 51],
    ]
