"""Where a server listens by a host's name, and that nobody else listens there already."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest
from tests.ipv6 import NEEDS_IPV6

from inferwire_server.transport.listening import Address, CannotListen, Resolve, addresses_of, listen, require_free


def resolving(*hosts: str) -> Resolve:
    """Make a resolver for which any name has the addresses of these hosts, in their order."""

    def resolve(_host: str, port: int) -> list[Address]:
        return [address for host in hosts for address in addresses_of(host, port)]

    return resolve


@NEEDS_IPV6
def test_of_a_names_addresses_it_listens_at_that_of_ipv4() -> None:
    with closing(listen("HTTP", "name", 0, shares_port=False, resolve=resolving("::1", "127.0.0.1"))) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@NEEDS_IPV6
@pytest.mark.parametrize("hosts", [("::1", "127.0.0.1"), ("127.0.0.1", "::1"), ("::1",), ("::",)])
def test_a_port_at_which_another_listens_under_the_same_name_is_not_free(hosts: tuple[str, ...]) -> None:
    resolve = resolving(*hosts)
    with closing(listen("HTTP", "name", 0, shares_port=True, resolve=resolve)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(CannotListen, match=f"on name:{port}: another process uses the port"):
            require_free("HTTP", "name", port, resolve=resolve)
    require_free("HTTP", "name", port, resolve=resolve)


@NEEDS_IPV6
def test_a_name_with_an_address_of_ipv6_alone_is_listened_at() -> None:
    with closing(listen("HTTP", "name", 0, shares_port=False, resolve=resolving("::1"))) as listener:
        socket.create_connection(("::1", listener.getsockname()[1])).close()


@pytest.mark.parametrize("host", ["nowhere.invalid", "x" * 64])
def test_a_name_that_is_none_is_one_sentence_in_either_question(host: str) -> None:
    with pytest.raises(CannotListen, match="there is no host of this name"):
        listen("HTTP", host, 0, shares_port=True)
    with pytest.raises(CannotListen, match="there is no host of this name"):
        require_free("HTTP", host, 1)
