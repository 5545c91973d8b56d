"""Which of the environment's proxies gRPC goes through to a server, by its own rules. Connects to nothing."""

from __future__ import annotations

import os
from ipaddress import ip_address, ip_network

from inferwire.transport.address import Address

_NAMING, _EXCEPTING = ("grpc_proxy", "https_proxy", "http_proxy"), ("no_grpc_proxy", "no_proxy")
"""The variables that gRPC reads, in lower case alone; the first of each that is set counts, even if it is empty."""


def proxy_variable(address: Address) -> str | None:
    """Tell which variable names the proxy on the way to a server; None if there is none on it."""
    excepted = next((os.environ[name] for name in _EXCEPTING if name in os.environ), "")
    if address.is_local or any(_covers(entry.strip(), address.host) for entry in excepted.split(",")):
        return None
    named = next((name for name in _NAMING if name in os.environ), None)
    return named if named and os.environ[named].startswith("http://") else None


def _covers(entry: str, host: str) -> bool:
    """Whether an entry of no_proxy is about a host: it is the end of a name, or a network of addresses."""
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return bool(entry) and host.lower().endswith(entry.lower())
