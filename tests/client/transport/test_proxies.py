"""The environment's proxy on the way to a server: who cannot get through it is told so."""

from __future__ import annotations

import socket

import pytest
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.address import parse_address
from inferwire.transport.proxies import proxy_variable
from inferwire.transport.unreachable import why_unreachable

VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_a_proxy_that_refuses_is_named_and_how_to_do_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy, DaemonThreads() as pool:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        asked = pool.submit(refuse, proxy)
        with pytest.raises(ov.ServerUnavailable) as caught:
            ov.Core("server.example:8001").served_model("m")
        assert asked.result(LIMIT_S) == b"CONNECT server.example:8001 HTTP/1.1"
    assert str(caught.value).startswith(
        "no inferwire server answers at server.example:8001 through the proxy that http_proxy names; "
        "name the host in no_proxy to do without it; start one with `inferwire serve`"
    )


def test_a_server_without_a_proxy_on_the_way_is_not_said_to_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", ".example")
    assert "proxy" not in why_unreachable("grpcs://server.example:8001", "no answer within 5 s")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"http_proxy": "http://p:1"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "https_proxy": "http://q:1"}, "https_proxy"),
        ({"http_proxy": "http://p:1", "https_proxy": ""}, None),
        ({"http_proxy": "socks5://p:1"}, None),
        ({"grpc_proxy": "http://p:1", "https_proxy": "http://q:1"}, "grpc_proxy"),
        ({"HTTP_PROXY": "http://p:1"}, None),
        ({"http_proxy": "http://p:1", "no_proxy": "a.test, Server.Example"}, None),
        ({"http_proxy": "http://p:1", "no_proxy": "a.test,"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "no_proxy": "*"}, "http_proxy"),
        ({"http_proxy": "http://p:1", "no_proxy": "example", "no_grpc_proxy": "a.test"}, "http_proxy"),
    ],
)
def test_the_variables_are_read_as_grpc_does(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str | None
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert proxy_variable(parse_address("server.example:8001")) == expected
    assert proxy_variable(parse_address("localhost:8001")) is None


@pytest.mark.parametrize(
    ("host", "entry", "is_covered"),
    [
        ("192.0.2.7", "192.0.2.0/24", True),
        ("192.0.2.7", "192.0.3.0/24", False),
        ("192.0.2.7", "192.0.2.7", True),
        ("[2001:db8::7]", "2001:db8::/32", True),
    ],
)
def test_no_proxy_may_have_networks(monkeypatch: pytest.MonkeyPatch, host: str, entry: str, is_covered: bool) -> None:
    monkeypatch.setenv("http_proxy", "http://p:1")
    monkeypatch.setenv("no_proxy", entry)
    assert (proxy_variable(parse_address(f"{host}:8001")) is None) == is_covered


def refuse(proxy: socket.socket) -> bytes:
    """Take one connection, answer as a proxy that does not let it through, and give the line it began with."""
    connection, _ = proxy.accept()
    with connection:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    return head.partition(b"\r\n")[0]
