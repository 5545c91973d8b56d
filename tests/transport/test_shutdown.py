"""What connections of every kind meet while a server shuts down, step by step, as the table for operators has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import grpc
import pytest
import pytest_asyncio
from tests.transport.conftest import Models
from tests.transport.http2.socket_peer import PREFACE, Peer
from tests.transport.http2.wire import data, headers
from tests.transport.session.carriers import Ended, SocketStream
from tests.transport.session.driven import execution, row
from tests.waiting import until

from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1 import inference_pb2
from inferwire_server.crew import ALONE
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip
from inferwire_server.server import Composition, _drain
from inferwire_server.settings import Settings
from inferwire_server.sockets import Sockets, listening
from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.header_blocks import write_block
from inferwire_server.transport.rpc.messages import PREFIX
from inferwire_server.workers.followers import Followers
from inferwire_server.workers.processes import Workers

END = Ended("SHUTTING_DOWN", "the server is shutting down")
REFUSED = "UNAVAILABLE SHUTTING_DOWN"
NEVER_S = 3600.0


class Answer(NamedTuple):
    """An answer over HTTP, and whether it is the last on its connection."""

    status: int
    is_last: bool


class HttpClient:
    """A connection to the HTTP port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    async def answer(self) -> Answer:
        head = await self._reader.readuntil(b"\r\n\r\n")
        await self._reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        is_last = b"connection: close" in head.lower()
        if is_last:
            assert await self._reader.read() == b""
            self._writer.close()
        return Answer(int(head.split()[1]), is_last)

    async def ended(self) -> bytes:
        """Give what comes before the connection is closed."""
        rest = await self._reader.read()
        self._writer.close()
        return rest

    async def live(self) -> Answer:
        self.say(b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n")
        return await self.answer()

    async def infer(self, model: str = "echo") -> Answer:
        self.say(inference(model))
        return await self.answer()


class GrpcClient:
    """A connection to the gRPC port."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")

    async def infer(self, model: str = "echo") -> str:
        try:
            await self._call(message(model), timeout=20)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name} {error.trailing_metadata().get(CODE_METADATA)}"
        return "OK"


@dataclass
class Clients:
    """Ways to call a server."""

    sockets: Sockets
    composition: Composition
    models: Models

    async def running(self, count: int) -> None:
        """Wait until so many inferences run."""
        (device,) = self.composition.engine.devices
        await until(lambda: device.occupancy.running >= count)

    async def http(self) -> HttpClient:
        return HttpClient(*await asyncio.open_connection("127.0.0.1", self.sockets.http.port))

    @asynccontextmanager
    async def grpc(self) -> AsyncGenerator[GrpcClient, None]:
        options = (("grpc.use_local_subchannel_pool", 1),)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.sockets.grpc.port}", options=options) as channel:
            yield GrpcClient(channel)

    async def session(self) -> SocketStream:
        epoch = self.composition.services.health.identity.epoch
        return await SocketStream.connect(self.sockets.grpc.port, epoch)

    @asynccontextmanager
    async def half_sent(self, http_end: int = -10) -> AsyncGenerator[tuple[HttpClient, Peer], None]:
        """Send the first part of a request on each port, over HTTP up to `http_end`."""
        http = await self.http()
        http.say(inference("echo")[:http_end])
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.sockets.grpc.port))
        path = b"/inference.GRPCInferenceService/ModelInfer"
        called = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path),
            (b"content-type", b"application/grpc"),
        ]
        content = framed(message("echo"))
        peer.say(PREFACE, headers(1, write_block(called)), data(1, content[:10]))
        peer.say(frames.head(frames.PING, 0, 0, 8), b"heard it")
        while (await peer.told(1))[0].content != b"heard it":
            pass
        await until(lambda: any(each._requests.has_begun for each in self.sockets.http.connections))
        yield http, peer
        peer.close()


def inference(model: str) -> bytes:
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}).encode()
    return b"POST /v2/models/%b/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (
        model.encode(),
        len(body),
        body,
    )


def message(model: str) -> bytes:
    request = oip.ModelInferRequest(model_name=model, raw_input_contents=[bytes(16)])
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    return request.SerializeToString()


def framed(content: bytes) -> bytes:
    return PREFIX.pack(0, len(content)) + content


async def trailers(peer: Peer) -> bytes:
    """Give the headers with which a call ends."""
    while not ((told := (await peer.told(1))[0]).stream == 1 and told.flags & frames.END_STREAM):
        pass
    return told.content


@pytest.fixture
def models() -> Models:
    """Of which one runs until the test lets it go on."""
    slow = FakeModel(echo_spec("slow"), optimal_slots=3)
    slow.gate.close()
    return {"echo": FakeModel(echo_spec("echo")), "slow": slow}


@pytest_asyncio.fixture
async def clients(composition: Composition, settings: Settings, models: Models) -> AsyncIterator[Clients]:
    """Who calls the server, whose ports are open."""
    async with listening(replace(settings, http_port=0, grpc_port=0), composition, ALONE, None) as opened:
        yield Clients(opened, composition, models)


@asynccontextmanager
async def ending(
    clients: Clients, settings: Settings, delay_s: float = 0.0
) -> AsyncGenerator[asyncio.Future[None], None]:
    """Have the server end."""
    settings = replace(settings, drain_delay_s=delay_s)
    followers = Followers(Workers(), 0)
    draining = asyncio.ensure_future(_drain(clients.composition, clients.sockets, followers, settings))
    has_begun = (
        (lambda: clients.sockets.http._around.is_parting)
        if delay_s
        else (lambda: clients.sockets.grpc._drain.is_draining)
    )
    await until(has_begun)
    yield draining
    draining.cancel()


async def run(session: SocketStream, model: str = "echo") -> None:
    await session.send(inference_pb2.SessionRequest(executions=[execution(1, model)]), [row(1)])


HALVES = pytest.mark.parametrize("http_end", [30, -10], ids=["within its head", "within its body"])


@HALVES
async def test_while_it_drains_all_is_served_as_before(clients: Clients, settings: Settings, http_end: int) -> None:
    idle, session = await clients.http(), await clients.session()
    await session.open()
    assert await idle.live() == (200, False)
    async with clients.grpc() as idle_grpc, clients.grpc() as new_grpc, clients.half_sent(http_end) as (http, peer):
        assert await idle_grpc.infer() == "OK"
        async with ending(clients, settings, NEVER_S):
            assert await (await clients.http()).infer() == (200, True)
            assert await new_grpc.infer() == "OK"
            new_session = await clients.session()
            await new_session.open()

            assert await idle.infer() == (200, True)
            assert await idle_grpc.infer() == "OK"
            for each in session, new_session:
                await run(each)
                assert (await each.results(1))[1][1] == [row(1)]
                each.leave()

            http.say(inference("echo")[http_end:])
            assert await http.answer() == (200, True)
            peer.say(data(1, framed(message("echo"))[10:], frames.END_STREAM))
            assert b"grpc-status\x010" in await trailers(peer)


@HALVES
async def test_while_it_refuses_what_runs_goes_on_and_nothing_else_is_begun(
    clients: Clients, settings: Settings, http_end: int
) -> None:
    idle, running = await clients.http(), await clients.http()
    session, running_session = await clients.session(), await clients.session()
    await session.open()
    await running_session.open()
    assert await idle.live() == (200, False)
    async with clients.grpc() as caller, clients.grpc() as new_grpc, clients.half_sent(http_end) as (http, peer):
        answers = asyncio.gather(running.infer("slow"), caller.infer("slow"))
        await run(running_session, "slow")
        await clients.running(3)
        async with ending(clients, settings) as draining:
            assert await (await clients.http()).infer() == (503, True)
            assert await (await clients.http()).live() == (200, True)
            assert await new_grpc.infer() == REFUSED
            new_session = await clients.session()
            assert await new_session.ended() == END

            assert await idle.infer() == (503, True)
            assert await session.ended() == END

            http.say(inference("echo")[http_end:])
            assert await http.answer() == (503, True)
            peer.say(data(1, framed(message("echo"))[10:], frames.END_STREAM))
            assert b"SHUTTING_DOWN" in await trailers(peer)

            clients.models["slow"].gate.open()
            assert await answers == [(200, True), "OK"]
            assert (await running_session.results(1))[1][1] == [row(1)]
            assert await running_session.ended() == END
            await draining
            for port in clients.sockets.http.port, clients.sockets.grpc.port:
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", port)


@HALVES
async def test_at_its_exit_what_has_not_come_whole_is_refused_and_who_is_idle_is_left(
    clients: Clients, settings: Settings, http_end: int
) -> None:
    idle = await clients.http()
    assert await idle.live() == (200, False)
    async with clients.half_sent(http_end) as (http, peer), ending(clients, settings) as draining:
        assert b"SHUTTING_DOWN" in await trailers(peer)
        assert await http.answer() == (503, True)
        assert await idle.ended() == b""
        await draining
