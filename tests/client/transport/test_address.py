"""What is taken for an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferwire.transport.address import DEFAULT_ADDRESS, ENVIRONMENT_VARIABLE, Address, parse_address


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("host:9", Address("host:9")),
        ("host", Address("host:8001")),
        ("grpc://host:9", Address("host:9", is_grpc_alone=True)),
        ("grpcs://host:9", Address("host:9", is_secure=True)),
        ("grpcs://host", Address("host:8001", is_secure=True)),
        ("[::1]:9", Address("[::1]:9")),
        ("[::1]", Address("[::1]:8001")),
        ("unix:/run/inferwire.sock", Address("unix:/run/inferwire.sock")),
        (Path("host:9"), Address("host:9")),
    ],
)
def test_addresses(given: str, expected: Address) -> None:
    assert parse_address(given) == expected


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("host:9", ("host", 9)),
        ("[::1]:9", ("::1", 9)),
        ("grpcs://host:9", ("host", 9)),
        ("unix:/run/inferwire.sock", "/run/inferwire.sock"),
    ],
)
def test_where_sockets_are_connected_to(given: str, place: object) -> None:
    assert parse_address(given).place == place


@pytest.mark.parametrize(
    "given", ["unix:", "host:", "host:x", "host:0", "host:65536", ":9", "::1", "::1:9", "http://host:9", "host:9/x"]
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(ValueError, match=r"address '.*' (is not|has)"):
        parse_address(given)


def test_what_an_address_may_be_is_said() -> None:
    forms = "is not host:port, grpc://host:port, grpcs://host:port or unix:path"
    with pytest.raises(ValueError, match=f"^address '::1' {forms}$"):
        parse_address("::1")
    with pytest.raises(ValueError, match=f"^address 'grpcs://host:9/' {forms}; it has a '/' behind its host$"):
        parse_address("grpcs://host:9/")


def test_a_url_is_told_from_an_address() -> None:
    with pytest.raises(ValueError, match="URLs are for REST calls: give the host and its gRPC port, as localhost:8001"):
        parse_address("http://host:8000")


def test_without_one_the_environment_says_or_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    assert str(parse_address()) == DEFAULT_ADDRESS
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "grpcs://elsewhere:1")
    assert str(parse_address()) == str(parse_address("")) == "grpcs://elsewhere:1"
    assert str(parse_address("here:2")) == "here:2"


@pytest.mark.parametrize(
    ("given", "is_local"),
    [
        ("localhost", True),
        ("127.0.0.2:1", True),
        ("[::1]:1", True),
        ("unix:/run/inferwire.sock", True),
        ("grpcs://localhost:1", True),
        ("elsewhere:1", False),
        ("127host:1", False),
    ],
)
def test_a_server_on_this_machine_is_reached_without_a_proxy(given: str, is_local: bool) -> None:
    assert parse_address(given).is_local is is_local
