"""The low-water marks of asyncio's connections."""

from __future__ import annotations

import asyncio

from inferwire_proto.host.low_water import LowWater, low_water_on


def low_water_of(transport: asyncio.BaseTransport) -> LowWater:
    """Make the low-water mark of a connection, plain or with TLS."""
    has_tls = transport.get_extra_info("sslcontext") is not None
    return low_water_on(transport.get_extra_info("socket"), has_tls=has_tls)
