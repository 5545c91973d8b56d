"""A peer with TLS that takes its answer slowly: of what waits below TLS nobody tells, and it is there all the same."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.certificates import Authority
from tests.clock import Clock
from tests.transport.session.carriers import Ended, SocketStream
from tests.transport.session.driven import execution, row
from tests.waiting import LIMIT_S

from inferwire_proto.frames import Kind
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.service import Services
from inferwire_server.transport.keepalive import PeerTimeouts
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.tls import Tls

ROWS = 3 << 20
"""Of 16 bytes each: more than systems keep for a socket."""

PARTS = 64

TIMEOUTS = PeerTimeouts()


@pytest.fixture
def models() -> dict[str, FakeModel]:
    return {"echo": FakeModel(echo_spec("echo"))}


@pytest_asyncio.fixture
async def sockets(services: Services, clock: Clock) -> AsyncIterator[SocketSessions]:
    with SocketSessions(services, 64 << 20, TIMEOUTS, clock) as sessions:
        yield sessions


@pytest_asyncio.fixture
async def stream(sockets: SocketSessions, services: Services, tmp_path: Path) -> AsyncIterator[SocketStream]:
    authority = Authority(tmp_path)
    issued = authority.issue()
    options = GrpcOptions(port=0, tls=Tls(issued.certificate, issued.key))
    async with GrpcServer(services, options, sockets) as server:
        epoch = services.health.identity.epoch
        stream = await SocketStream.connect(server.port, epoch, tls=authority.trusting)
        await stream.open()
        yield stream
        stream.leave()


async def take_slowly(
    sockets: SocketSessions, clock: Clock, stream: SocketStream, byte_size: int, seconds: float
) -> None:
    """Read so much in so long."""
    for part in range(PARTS):
        await stream.reader.readexactly(byte_size * (part + 1) // PARTS - byte_size * part // PARTS)
        clock.now += seconds / PARTS
        await asyncio.sleep(0.01)
        sockets.check()


@pytest.mark.parametrize(
    ("is_draining", "seconds"),
    [(False, 1.5 * (TIMEOUTS.silence_s + TIMEOUTS.answer_s)), (True, 2 * TIMEOUTS.answer_s)],
    ids=["in the middle", "at the end"],
)
async def test_who_takes_an_answer_slowly_gets_all_of_it(
    sockets: SocketSessions, clock: Clock, stream: SocketStream, is_draining: bool, seconds: float
) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, rows=ROWS)]), [row(3, ROWS)])
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        kind, byte_size = struct.unpack("<II", await stream.reader.readexactly(8))
        assert (kind, byte_size > 16 * ROWS) == (Kind.MESSAGE, True)
        if is_draining:
            tasks.create_task(sockets.drain.drain(LIMIT_S))
        await take_slowly(sockets, clock, stream, byte_size, seconds)
        if is_draining:
            assert await stream.ended() == Ended("SHUTTING_DOWN", "the server is shutting down")
        else:
            await stream.say_all()
            assert await stream.ended() is None


async def test_who_takes_nothing_is_cut_off(sockets: SocketSessions, clock: Clock, stream: SocketStream) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, rows=ROWS)]), [row(3, ROWS)])
    async with asyncio.timeout(LIMIT_S):
        while sockets.drain.is_busy:
            clock.now += TIMEOUTS.silence_s / 8
            await asyncio.sleep(0.01)
            sockets.check()
