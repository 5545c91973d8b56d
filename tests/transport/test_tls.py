"""The certificate that both ports show."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from starlette.responses import Response
from tests.certificates import Authority, Issued
from tests.plain_http import plain_client
from tests.transport.key_kinds import KEYS_FOR_GRPC, OTHER_KEYS, PrivateKey, certificate_for
from tests.transport.session.carriers import GrpcStream, SocketStream
from tests.waiting import LIMIT_S, until
from tritonclient.grpc.aio import InferenceServerClient, InferInput

from inferwire_proto import frames
from inferwire_proto.errors import Code
from inferwire_proto.frames import Kind
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.crew import ALONE, Crew
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.settings import Settings
from inferwire_server.sockets import Sockets, listening, tls_of
from inferwire_server.transport import accepting
from inferwire_server.transport.http.server import HttpServer, http_server
from inferwire_server.transport.tls import Tls


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Who issued the certificate."""
    return Authority(tmp_path / "tls")


@pytest.fixture
def issued(authority: Authority) -> Issued:
    """The certificate's files."""
    return authority.issue()


@pytest.fixture
def tls(issued: Issued) -> Tls:
    """What the ports show."""
    return Tls(issued.certificate, issued.key)


@pytest_asyncio.fixture
async def servers(composition: Composition, settings: Settings, tls: Tls) -> AsyncIterator[Sockets]:
    """The ports, open."""
    settings = replace(settings, http_port=0, grpc_port=0)
    async with listening(settings, composition, ALONE, tls) as opened:
        yield opened


def credentials(authority: Authority) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(authority.root.read_bytes())


def https(servers: Sockets, authority: Authority) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"https://127.0.0.1:{servers.http.port}", verify=authority.trusting, timeout=20)


async def is_ready(servers: Sockets, authority: Authority) -> bool:
    """Ask over a new gRPC connection."""
    opened: Any = InferenceServerClient(f"localhost:{servers.grpc.port}", creds=credentials(authority), ssl=True)
    try:
        return await opened.is_server_ready()
    finally:
        await opened.close()


async def test_http_speaks_tls(servers: Sockets, authority: Authority) -> None:
    big = np.random.default_rng(0).random((20_000, 4), np.float32)
    given = {"name": "x", "datatype": "FP32", "shape": [20_000, 4], "parameters": {"binary_data_size": big.nbytes}}
    document = json.dumps({"inputs": [given], "parameters": {"binary_data_output": True}}).encode()
    async with https(servers, authority) as client:
        assert (await client.get("/v2/health/ready")).json()["ready"] is True
        for _ in range(3):
            answer = await client.post(
                "/v2/models/echo/infer",
                content=document + big.tobytes(),
                headers={"Inference-Header-Content-Length": str(len(document))},
            )
            assert answer.status_code == 200
            assert answer.content.endswith(big.tobytes())


async def test_grpc_speaks_tls(servers: Sockets, authority: Authority) -> None:
    client: Any = InferenceServerClient(f"localhost:{servers.grpc.port}", creds=credentials(authority), ssl=True)
    given = InferInput("x", [1, 4], "FP32")
    given.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.float32))
    found = (await client.infer("echo", [given])).as_numpy("y")
    assert found.tolist() == [[1, 2, 3, 4]]
    await client.close()


async def test_nothing_is_said_without_tls_but_that_it_is_needed(servers: Sockets) -> None:
    async with plain_client(base_url=f"http://127.0.0.1:{servers.http.port}") as client:
        for method in "GET", "POST":
            answer = await client.request(method, "/v2/health/ready")
            assert (answer.status_code, answer.headers["connection"]) == (400, "close")
            assert answer.json()["error"] == "this port speaks TLS alone: its address begins with https://"
    await until(lambda: not servers.http.connections)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{servers.grpc.port}") as channel:
        call: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", timeout=LIMIT_S)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_who_says_nothing_where_tls_is_spoken_is_closed(
    servers: Sockets, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "_FIRST_BYTE_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", servers.http.port)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()
    _, gone = await asyncio.open_connection("127.0.0.1", servers.http.port)
    gone.close()
    async with https(servers, authority) as client:
        assert (await client.get("/v2/health/ready")).json()["ready"] is True


async def test_versions_that_are_broken_are_not_spoken(servers: Sockets, authority: Authority) -> None:
    context = authority.trusting
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with httpx.AsyncClient(base_url=f"https://127.0.0.1:{servers.http.port}", verify=context) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("/v2/health/ready")


async def welcome_over_grpc(servers: Sockets, authority: Authority) -> pb.SessionWelcome:
    async with grpc.aio.secure_channel(f"localhost:{servers.grpc.port}", credentials(authority)) as channel:
        stream = GrpcStream(channel)
        welcome = await stream.open()
        stream.leave()
        return welcome


async def test_a_session_may_go_on_at_a_socket_with_tls(servers: Sockets, authority: Authority) -> None:
    welcome = await welcome_over_grpc(servers, authority)
    assert welcome.takes_sockets
    stream = await SocketStream.connect(servers.grpc.port, welcome.server_epoch, tls=authority.trusting)
    assert (await stream.open(welcome.session_id)).session_id == welcome.session_id
    await stream.say_all()
    assert await stream.ended() is None


async def test_a_session_is_not_taken_without_tls(servers: Sockets, authority: Authority) -> None:
    welcome = await welcome_over_grpc(servers, authority)
    stream = await SocketStream.connect(servers.grpc.port, welcome.server_epoch)
    async with asyncio.timeout(20):
        assert frames.header(Kind.MESSAGE, 0)[:4] not in await stream.reader.read()
    stream.leave()


async def test_with_several_workers_a_session_stays_on_grpc(
    composition: Composition, settings: Settings, tls: Tls, authority: Authority, tmp_path: Path
) -> None:
    crew = Crew(0, 2, tmp_path, "token")
    async with listening(replace(settings, http_port=0, grpc_port=0), composition, crew, tls) as servers:
        assert (await welcome_over_grpc(servers, authority)).takes_sockets is False
        reader, writer = await asyncio.open_connection("127.0.0.1", servers.grpc.port, ssl=authority.trusting)
        writer.write(frames.PREFACE)
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 400")
        writer.close()


async def test_new_connections_see_a_renewed_certificate(
    servers: Sockets, authority: Authority, issued: Issued, tls: Tls, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    async with https(servers, authority) as before:
        assert (await before.get("/v2/health/live")).status_code == 200
        assert await is_ready(servers, authority)
        other.issue(into=issued)
        assert tls.renew()
        assert not tls.renew()
        # The connection that is open goes on.
        assert (await before.get("/v2/health/live")).status_code == 200
    async with https(servers, other) as after:
        assert (await after.get("/v2/health/live")).status_code == 200
    assert await is_ready(servers, other)
    async with https(servers, authority) as client:
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            await client.get("/v2/health/live")


async def test_what_cannot_be_used_changes_nothing(
    servers: Sockets, authority: Authority, issued: Issued, tls: Tls, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other").issue()
    issued.certificate.write_bytes(other.certificate.read_bytes())
    with pytest.raises(ServingError, match=f"--tls-key is '{issued.key}', which is not the key of --tls-certificate "):
        tls.renew()
    async with https(servers, authority) as client:
        assert (await client.get("/v2/health/live")).status_code == 200
    assert await is_ready(servers, authority)


def shown_at(port: int, version: ssl.TLSVersion, name: str | None = "localhost") -> tuple[bytes | None, str | None]:
    """Connect as somebody who trusts anybody: what is shown, and what is spoken then."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", port)) as opened,
        context.wrap_socket(opened, server_hostname=name) as connection,
    ):
        return connection.getpeercert(binary_form=True), connection.selected_alpn_protocol()


def put(key: PrivateKey, into: Issued) -> bytes:
    """Write a key and a certificate for it; give what callers are to see."""
    certificate = certificate_for(key)
    into.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    into.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_ports_show_the_same_whatever_kind_of_key_comes_after_which(
    servers: Sockets, issued: Issued, tls: Tls, version: ssl.TLSVersion
) -> None:
    for kind in ("ECDSA P-256", "RSA", "ECDSA P-384", "RSA", "ECDSA P-256"):
        expected = put(KEYS_FOR_GRPC[kind](), issued)
        assert tls.renew()
        for name in ("localhost", None):
            assert await asyncio.to_thread(shown_at, servers.http.port, version, name) == (expected, "http/1.1")
            assert await asyncio.to_thread(shown_at, servers.grpc.port, version, name) == (expected, "h2")


@pytest.mark.parametrize("kind", KEYS_FOR_GRPC)
async def test_every_kind_of_key_that_is_taken_serves_grpc(
    servers: Sockets, issued: Issued, tls: Tls, kind: str
) -> None:
    put(KEYS_FOR_GRPC[kind](), issued)
    assert tls.renew()
    trusting = grpc.ssl_channel_credentials(issued.certificate.read_bytes())
    async with grpc.aio.secure_channel(f"localhost:{servers.grpc.port}", trusting) as channel:
        call: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        await call(b"", timeout=20)


@pytest.mark.parametrize("kind", OTHER_KEYS)
def test_a_key_that_grpc_does_not_speak_with_is_refused(issued: Issued, tls: Tls, kind: str) -> None:
    put(OTHER_KEYS[kind](), issued)
    expected = r"gRPC speaks with no key of this kind, expected RSA, or ECDSA on the curve P-256 or P-384$"
    with pytest.raises(ServingError, match=expected):
        tls.renew()
    with pytest.raises(ServingError, match=expected):
        Tls(issued.certificate, issued.key)


def test_each_file_is_read_once(issued: Issued) -> None:
    with ExitStack() as opened:
        certificate, key = (opened.enter_context(read_once(file)) for file in (issued.certificate, issued.key))
        Tls(certificate, key)


@contextmanager
def read_once(file: Path) -> Generator[Path]:
    """Give another path to what a file holds, at which nothing is left for who reads it again."""
    outlet, inlet = os.pipe()
    with os.fdopen(outlet, "rb"):
        with os.fdopen(inlet, "wb") as pipe:
            pipe.write(file.read_bytes())
        yield Path(f"/proc/self/fd/{outlet}")


def test_certificate_and_key_may_be_one_file(issued: Issued) -> None:
    issued.certificate.write_bytes(issued.key.read_bytes() + issued.certificate.read_bytes())
    tls = Tls(issued.certificate, issued.certificate)
    assert not tls.renew()


@asynccontextmanager
async def answering(size: int, tls: Tls) -> AsyncGenerator[HttpServer]:
    """Answer each request over HTTPS with so many bytes."""
    async with http_server(Response(b"x" * size), "127.0.0.1", 0, tls=tls) as server:
        yield server


async def ask(server: HttpServer, authority: Authority) -> http.client.HTTPSConnection:
    """Open a connection and send a request; the answer is not read."""
    connection = http.client.HTTPSConnection("localhost", server.port, context=authority.trusting, timeout=20)
    await asyncio.to_thread(connection.request, "GET", "/")
    return connection


async def test_a_connection_whose_peer_does_not_read_is_closed_at_once(authority: Authority, tls: Tls) -> None:
    async with answering(5, tls) as server:
        connection = await ask(server, authority)
        answer = await asyncio.to_thread(connection.getresponse)
        assert await asyncio.to_thread(answer.read) == b"xxxxx"
        async with asyncio.timeout(20):
            await server.drain(60)
        assert connection.sock.recv(1) == b""
        connection.close()


async def test_an_answer_is_read_to_its_end_while_the_server_stops(authority: Authority, tls: Tls) -> None:
    size = 50_000_000
    async with answering(size, tls) as server:
        connection = await ask(server, authority)
        answer = await asyncio.to_thread(connection.getresponse)
        draining = asyncio.ensure_future(server.drain(60))
        for _ in range(3):
            await asyncio.wait([draining], timeout=0.3)
            assert not draining.done()
            assert await asyncio.to_thread(answer.read, 5_000_000) == b"x" * 5_000_000
        assert await asyncio.to_thread(answer.read) == b"x" * (size - 15_000_000)
        async with asyncio.timeout(20):
            await draining
        connection.close()


async def test_who_shakes_hands_while_the_server_stops_is_not_waited_for(authority: Authority, tls: Tls) -> None:
    async with answering(50_000_000, tls) as server:
        reading = await ask(server, authority)
        answer = await asyncio.to_thread(reading.getresponse)
        late = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", server.port))
        # The server has taken it, since it takes them one after the other.
        (await ask(server, authority)).close()
        draining = asyncio.ensure_future(server.drain(60))
        await asyncio.wait([draining], timeout=0.3)
        with await asyncio.to_thread(authority.trusting.wrap_socket, late, server_hostname="localhost") as secured:
            assert await asyncio.to_thread(secured.recv, 1) == b""
            await asyncio.to_thread(answer.read)
            async with asyncio.timeout(20):
                await draining
        reading.close()


def why_not(certificate: Path, key: Path) -> str:
    """Read files that cannot be used; give what the operator is told."""
    with pytest.raises(ServingError) as caught:
        Tls(certificate, key)
    assert caught.value.code is Code.INVALID_INPUT
    return caught.value.message


def test_a_file_that_is_not_there_is_named(issued: Issued, tmp_path: Path) -> None:
    none = tmp_path / "none.pem"
    reason = f"is '{none}', which cannot be read: No such file or directory"
    assert why_not(issued.certificate, none) == f"--tls-key {reason}"
    assert why_not(none, issued.key) == f"--tls-certificate {reason}"
    assert why_not(none, none) == f"--tls-certificate {reason}"
    assert why_not(issued.certificate, tmp_path) == f"--tls-key is '{tmp_path}', which cannot be read: Is a directory"


@pytest.mark.usefixtures("little_memory")
def test_what_has_no_end_is_named_as_such(issued: Issued) -> None:
    endless = Path("/dev/zero")
    reason = f"is '{endless}', which cannot be read: it is a device with more than 16 MiB"
    assert why_not(endless, issued.key) == f"--tls-certificate {reason}"
    assert why_not(issued.certificate, endless) == f"--tls-key {reason}"


def test_a_file_that_holds_something_else_is_named(issued: Issued, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for file in (issued.certificate, empty):
        assert why_not(issued.certificate, file) == (
            f"--tls-key is '{file}', which has no private key in it, expected one in PEM"
        )
    for file in (issued.key, empty):
        assert why_not(file, issued.key) == (
            f"--tls-certificate is '{file}', which has no certificate in it, expected one in PEM"
        )


@pytest.mark.parametrize("kind", ["RSA", "ECDSA P-384"])
def test_a_key_that_is_another_certificates_is_named(issued: Issued, tmp_path: Path, kind: str) -> None:
    other = Issued(tmp_path / "other.pem", tmp_path / "other.key")
    put(KEYS_FOR_GRPC[kind](), other)
    assert why_not(issued.certificate, other.key) == (
        f"--tls-key is '{other.key}', which is not the key of --tls-certificate '{issued.certificate}'"
    )


def test_of_what_is_broken_within_both_files_are_named(issued: Issued) -> None:
    issued.key.write_bytes(issued.key.read_bytes()[:100])
    assert why_not(issued.certificate, issued.key).startswith(
        f"--tls-certificate is '{issued.certificate}', --tls-key is '{issued.key}', and TLS cannot be spoken with them:"
    )


def test_a_key_with_a_password_is_refused_without_asking_for_it(issued: Issued) -> None:
    key = load_pem_private_key(issued.key.read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    issued.key.write_bytes(locked)
    with pytest.raises(ServingError, match="the key is encrypted, expected one that is not"):
        Tls(issued.certificate, issued.key)


def test_without_files_there_is_no_tls() -> None:
    assert tls_of(Settings()) is None


def test_the_repr_names_the_certificate(tls: Tls, issued: Issued) -> None:
    assert repr(tls) == f"<Tls: {issued.certificate}>"
