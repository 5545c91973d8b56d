"""A client that has the wrong port, TLS on one side alone, or both: it is told all that it has to change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.system.servers import started, wait_for_line

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, has_ended_within

DIGITS = Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp"
HTTP_PORT = (
    "speaks HTTP/1.1 and not gRPC: .+ the address is to have the gRPC port, 8001 unless the server was told other"
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", params=[False, True], ids=["a server without TLS", "a server with TLS"])
def has_tls(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(scope="module")
def server(authority: Authority, has_tls: bool) -> Iterator[ServerProcess]:
    issued = authority.issue()
    tls = ("--tls-certificate", str(issued.certificate), "--tls-key", str(issued.key)) if has_tls else ()
    with started("--model-repository", str(DIGITS), *tls) as (running, log):
        wait_for_line(running, log, '"ready"')
        yield running
        running.process.terminate()
        assert has_ended_within(running, 30)


def said_to(address: str, authority: Authority) -> str:
    """Give what a client is told that uses an address; empty if it is answered."""
    roots = authority.root if address.startswith("grpcs://") else None
    with ov.Core(address, root_certificates=roots) as core:
        try:
            core.served_models()
        except ov.ServerUnavailable as error:
            return str(error)
    return ""


def test_the_grpc_port(server: ServerProcess, authority: Authority, has_tls: bool) -> None:
    plain, secure = f"localhost:{server.grpc_port}", f"grpcs://localhost:{server.grpc_port}"
    right, wrong = (secure, plain) if has_tls else (plain, secure)
    assert said_to(right, authority) == ""
    assert f"its address is {right} (" in said_to(wrong, authority)


def test_the_http_port(server: ServerProcess, authority: Authority, has_tls: bool) -> None:
    plain, secure = f"localhost:{server.http_port}", f"grpcs://localhost:{server.http_port}"
    right, wrong = (secure, plain) if has_tls else (plain, secure)
    scheme = "and to begin with grpcs://, since" if has_tls else "and no grpcs://, since"
    assert re.match(rf"what answers at {right} {HTTP_PORT}wise \(", said_to(right, authority))
    assert re.match(rf"what answers at {wrong} {HTTP_PORT}wise, {scheme}", said_to(wrong, authority))
