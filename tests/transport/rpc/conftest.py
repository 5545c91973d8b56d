"""What tests of gRPC's calls share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest_asyncio
from tests.transport.open_session import Metadata, OpenSession


@pytest_asyncio.fixture
async def session(channel: grpc.aio.Channel) -> AsyncIterator[Metadata]:
    """The metadata that names a session, which is open."""
    async with OpenSession(channel) as opened:
        yield opened.metadata
