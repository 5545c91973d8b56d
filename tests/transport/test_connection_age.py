"""Connections that have become old: their callers go on with others, and nothing that runs is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any

import grpc
import pytest
from tests.transport.http.connections import GET, AnswersLater, answers, connect
from tests.transport.served_methods import served_methods
from tests.transport.session.carriers import SocketStream
from tests.transport.session.driven import execution, row
from tests.waiting import LIMIT_S, until

from inferwire_proto.inferwire.v1 import inference_pb2
from inferwire_server.crew import ALONE
from inferwire_server.server import Composition
from inferwire_server.settings import Settings
from inferwire_server.sockets import listening
from inferwire_server.transport.connection_age import Age, Ages
from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.http2.protocol import Http2Timeouts
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import Method

AT_ONCE = Ages(1e-9)
LOOKING = Http2Timeouts(look_s=0.01)
OWN = (("grpc.use_local_subchannel_pool", 1),)


def test_each_connection_is_old_at_an_age_of_its_own_within_a_tenth() -> None:
    drawn = iter((0.0, 0.5, 1.0))
    ages = Ages(100.0, lambda: next(drawn))
    assert repr(ages) == "<Ages: up to 100 s>"
    for old_at in (107.0, 102.0, 97.0):
        age = ages.begin(7.0)
        assert (age.is_old(old_at - 0.1), age.is_old(old_at)) == (False, True)
        assert repr(age) == f"<Age: old at {old_at}>"


def test_a_connection_is_never_old_unless_that_is_said_or_once_it_is_to_stay() -> None:
    stayed = Ages(100.0).begin(7.0)
    stayed.stop()
    for age in (Age(), Ages().begin(7.0), stayed):
        assert not age.is_old(1e9)
        assert repr(age) == "<Age: never old>"
    assert repr(Ages()) == "<Ages: without end>"


class AgesToCome(Ages):
    """Has connections be old from when the test says so, but for their first looks: gRPC takes some time to connect."""

    have_come = False

    def begin(self, now: float) -> Age:
        del now
        return AgeToCome(self)


class AgeToCome(Age):
    def __init__(self, ages: AgesToCome) -> None:
        super().__init__(-inf)
        self._ages = ages
        self._looks = 0

    def is_old(self, now: float) -> bool:
        self._looks += 1
        return self._ages.have_come and self._looks > 5 and super().is_old(now)


async def where(_: bytes, context: Context) -> bytes:
    """Say by which connection a call has come."""
    return context.peer.encode()


async def stream_where(_: bytes, context: Context) -> None:
    """Say it for each message of a stream."""
    while await context.read() is not None:
        await context.write(context.peer.encode())


METHODS = {
    "/tests.Calls/Where": Method(where),
    "/tests.Calls/Stream": Method(stream_where, takes_stream=True),
    "/tests.Calls/Keeping": Method(stream_where, takes_stream=True, keeps_connection=True),
}


async def test_who_calls_over_grpc_goes_on_with_new_connections_and_loses_nothing() -> None:
    ages = AgesToCome()
    async with (
        asyncio.timeout(LIMIT_S),
        served_methods(METHODS, timeouts=LOOKING, ages=ages) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OWN) as going,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OWN) as staying,
    ):
        running, keeping = await begun(going, "Stream"), await begun(staying, "Keeping")
        at_first = [await each() for each in (running, keeping)]
        ages.have_come = True
        used: list[set[bytes]] = [set(), set()]
        while len(used[0]) < 4:
            for found, channel in zip(used, (going, staying), strict=True):
                call: Any = channel.unary_unary("/tests.Calls/Where")
                found |= set(await asyncio.gather(*(call(b"") for _ in range(20))))
        assert used[1] == {at_first[1]}
        assert [await each() for each in (running, keeping)] == at_first


class AgesBegun(Ages):
    """Knows when they began."""

    def __init__(self) -> None:
        super().__init__()
        self.begun_at: list[float] = []

    def begin(self, now: float) -> Age:
        self.begun_at.append(now)
        return super().begin(now)


async def test_the_age_of_a_connection_over_grpc_begins_with_it() -> None:
    ages, before = AgesBegun(), monotonic()
    async with served_methods(METHODS, ages=ages) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary("/tests.Calls/Where")
        await call(b"")
    (begun_at,) = ages.begun_at
    assert before <= begun_at <= monotonic()


async def begun(channel: grpc.aio.Channel, method: str) -> Callable[[], Awaitable[bytes]]:
    """Begin a stream, and give what asks on it by which connection it goes."""
    opened: Any = channel.stream_stream(f"/tests.Calls/{method}")
    stream = opened()

    async def ask() -> bytes:
        await stream.write(b"?")
        return await stream.read()

    await ask()
    return ask


async def test_who_calls_over_http_is_told_with_the_first_answer_after_that_and_keeps_what_runs() -> None:
    app = AnswersLater(b"hello")
    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(GET)
        await app.begun.wait()
        (connection,) = server.connections
        connection.age = Age(-inf)
        app.may_end.set()
        assert b"connection" not in await reader.readuntil(b"hello")
        writer.write(GET)
        assert b"\r\nconnection: close\r\n" in await reader.read()
        writer.close()


@pytest.mark.parametrize(("ages", "is_last"), [(AT_ONCE, True), (Ages(3600.0), False), (Ages(), False)])
async def test_a_connection_of_http_has_the_ports_age(ages: Ages, is_last: bool) -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0, ages=ages) as server:
        reader, writer = await connect(server)
        writer.write(GET)
        assert (b"connection: close" in await reader.readuntil(b"hello")) == is_last
        writer.close()


async def test_the_setting_holds_for_both_ports_and_not_for_sessions(
    composition: Composition, settings: Settings
) -> None:
    settings = replace(settings, http_port=0, grpc_port=0, max_connection_age_s=1e-9)
    async with asyncio.timeout(LIMIT_S), listening(settings, composition, ALONE, None) as sockets:
        session = await SocketStream.connect(sockets.grpc.port, composition.services.health.identity.epoch)
        await session.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", sockets.http.port)
        writer.write(GET)
        assert b"\r\nconnection: close\r\n" in await reader.read()
        writer.close()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{sockets.grpc.port}", options=OWN) as channel:
            call: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            await call(b"")
            server = sockets.grpc._server
            (before,) = server._connections
            server._look()
            await until(lambda: before not in server._connections)
            await call(b"")
        await session.send(inference_pb2.SessionRequest(executions=[execution(1, "echo")]), [row(1)])
        assert (await session.results(1))[1][1] == [row(1)]
        session.leave()
