"""Who is at the other end of a connection: its peer as gRPC writes it, and the address alone."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Say who is at the other end, as gRPC does: `ipv4:127.0.0.1:5`, `ipv6:[::1]:5` or `unix:`."""
    plain: socket.socket | None = transport.get_extra_info("socket")
    if plain is not None and plain.family == socket.AF_UNIX:
        return "unix:"
    name: Any = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return "unknown:"  # it is gone already; it must not look as if it were on this host
    host, port = str(cast("tuple[Any, ...]", name)[0]), cast("tuple[Any, ...]", name)[1]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def address_of(peer: str) -> str:
    """Give the address of a peer without its port; all of `peer` if it has none."""
    host = peer.partition(":")[2].rpartition(":")[0]
    return host.strip("[]") or peer
