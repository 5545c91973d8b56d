"""A session's stream in a gRPC call, before its client has said hello."""

from __future__ import annotations

import grpc
import pytest
from tests.transport.session.carriers import Ended, GrpcStream
from tests.waiting import LIMIT_S, until

from inferwire_server.service import Services
from inferwire_server.transport.keepalive import PeerTimeouts
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.session.socket_sessions import SocketSessions


@pytest.fixture
def timeouts() -> PeerTimeouts:
    """How long peers are waited for: longer than any test."""
    return PeerTimeouts(hello_s=3600.0)


@pytest.fixture
def sockets(services: Services, grpc_options: GrpcOptions, timeouts: PeerTimeouts) -> SocketSessions:
    return SocketSessions(services, grpc_options.max_message_bytes, timeouts)


@pytest.mark.parametrize("timeouts", [PeerTimeouts(hello_s=0.0)])
async def test_a_hello_is_waited_for_so_long(channel: grpc.aio.Channel) -> None:
    assert await GrpcStream(channel).ended() == Ended("INVALID_INPUT", "no hello has come within 0 s")


async def test_a_server_that_drains_waits_for_no_hello(
    channel: grpc.aio.Channel, grpc_server: GrpcServer, sockets: SocketSessions
) -> None:
    stream = GrpcStream(channel)
    await until(lambda: sockets.drain.is_busy)
    assert await grpc_server.drain(LIMIT_S) == 0
    assert await stream.ended() == Ended("SHUTTING_DOWN", "the server is shutting down")


async def test_a_stream_that_comes_while_the_server_drains_is_sent_away(
    channel: grpc.aio.Channel, sockets: SocketSessions
) -> None:
    await sockets.drain.drain(0.0)
    assert await GrpcStream(channel).ended() == Ended("SHUTTING_DOWN", "the server is shutting down")
