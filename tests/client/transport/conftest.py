"""The transport, and a scripted server on a real socket that it speaks to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.transport.scripted_server import ScriptedServer
from tests.waiting import LIMIT_S

from inferwire.transport.address import parse_address
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.timeouts import Timeouts


@pytest.fixture(params=["gRPC", "socket"])
def server(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    with ScriptedServer(on_socket=request.param == "socket") as server:
        yield server


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[GrpcTransport]:
    transport = GrpcTransport(parse_address(f"127.0.0.1:{server.port}"), Timeouts(LIMIT_S))
    yield transport
    transport.close()
