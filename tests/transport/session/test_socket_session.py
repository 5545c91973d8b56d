"""What only sessions on plain sockets have: a preface at the HTTP port, frames, and peers that nobody else watches."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import pytest_asyncio
from tests.transport.session.carriers import LIMIT_S, Ended, GrpcStream, SocketStream, joined

from inferwire_proto import frames
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.frames import PREFACE, Kind
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.core.job import Job, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition, _listening
from inferwire_server.service import Services
from inferwire_server.settings import Settings
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.relay.crew import Crew
from inferwire_server.transport.rest.http_server import http_server
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.session.life_signs import Patience
from inferwire_server.transport.session.outbox import Running
from inferwire_server.transport.session.socket_session import SocketSession
from inferwire_server.transport.session.socket_sessions import SocketSessions

Models = dict[str, FakeModel]
MOST_BYTES = 1 << 20


@pytest.fixture
def models() -> Models:
    slow = FakeModel(echo_spec("slow"), gate=Gate(is_open=False), optimal_slots=1)
    return {"echo": FakeModel(echo_spec("echo")), "slow": slow}


@pytest.fixture
def grpc_options() -> GrpcOptions:
    return GrpcOptions(port=0, max_message_bytes=MOST_BYTES)


class Clock:
    """Time that goes on when the test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def sockets(services: Services, clock: Clock) -> AsyncIterator[SocketSessions]:
    with SocketSessions(services, Drain(), MOST_BYTES, Patience(), clock) as sessions:
        yield sessions


@pytest_asyncio.fixture
async def connect(socket_port: int, services: Services) -> AsyncIterator[Callable[..., Awaitable[SocketStream]]]:
    """Connect, and say the preface or something else."""
    begun: list[SocketStream] = []

    async def begin(preface: bytes = PREFACE) -> SocketStream:
        begun.append(await SocketStream.connect(socket_port, services.health.identity.epoch, preface=preface))
        return begun[-1]

    yield begin
    for stream in begun:
        stream.leave()


Connect = Callable[..., Awaitable[SocketStream]]


@pytest_asyncio.fixture
async def stream(connect: Connect) -> SocketStream:
    opened = await connect()
    await opened.open()
    return opened


def execution(execution_id: int, model: str = "echo", rows: int = 1) -> pb.Execution:
    header = types_pb2.TensorHeader(name="x", element_type=types_pb2.ELEMENT_TYPE_F32, shape=(rows, 4))
    return pb.Execution(ids=[execution_id], target=pb.Target(served=model), inputs=[header])


def row(value: float, rows: int = 1) -> bytes:
    return np.full((rows, 4), value, np.float32).tobytes()


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop and its threads go on until something holds."""
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.to_thread(int)


# The HTTP port.


async def test_the_preface_may_come_in_pieces(connect: Connect, services: Services) -> None:
    stream = await connect(preface=b"")
    hello = joined(pb.SessionRequest(hello=stream.hello()))
    for byte in PREFACE + frames.header(Kind.MESSAGE, len(hello)) + hello:
        stream.writer.write(bytes([byte]))
        await asyncio.to_thread(int)
    welcome = pb.SessionResponse.FromString(await stream.message()).welcome
    assert welcome.server_epoch == services.health.identity.epoch


async def test_what_follows_the_preface_may_come_with_it(connect: Connect) -> None:
    stream = await connect(preface=b"")
    hello = pb.SessionRequest(hello=stream.hello(), executions=[execution(1, rows=10_000)])
    message = joined(hello, [row(3, 10_000)])
    assert len(message) > 2 * frames.SCRATCH_BYTES
    stream.writer.write(PREFACE + frames.header(Kind.MESSAGE, len(message)) + message)
    assert pb.SessionResponse.FromString(await stream.message()).HasField("welcome")
    assert (await stream.results(1))[1][1] == [row(3, 10_000)]


async def test_http_at_the_same_port_is_http(connect: Connect, socket_port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{socket_port}") as client:
        for _ in range(2):
            assert (await client.get("/v2/health/ready")).status_code == 200
    stream = await connect(preface=b"")
    for byte in b"GET /v2/health/ready HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n":
        stream.writer.write(bytes([byte]))
    assert (await stream.reader.read()).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("said", [b"inferwire session 2\r\n\r\n", PREFACE[:5] + b"no more"])
async def test_what_only_begins_like_the_preface_is_refused_as_http(connect: Connect, said: bytes) -> None:
    stream = await connect(preface=said)
    assert b"what arrived is no HTTP/1.1 request" in await stream.reader.read()


async def test_the_preface_is_none_behind_a_request(connect: Connect, sockets: SocketSessions) -> None:
    stream = await connect(preface=b"GET /v2/health/ready HTTP/1.1\r\nhost: here\r\n\r\n")
    assert await stream.reader.readuntil(b"\r\n\r\n")
    stream.writer.write(PREFACE)
    assert b"what arrived is no HTTP/1.1 request" in await stream.reader.read()
    assert repr(sockets).endswith(": 0 connections>")


async def test_a_server_without_sessions_on_sockets_refuses_them_as_http() -> None:
    async def app(_scope: object, _receive: object, _send: object) -> None:
        """Answer nothing."""

    async with http_server(app, "127.0.0.1", 0) as server:
        stream = await SocketStream.connect(server.port, "")
        assert b"what arrived is no HTTP/1.1 request" in await stream.reader.read()
        stream.leave()


@pytest.mark.parametrize(("workers", "has_sockets"), [(1, True), (2, False)])
async def test_several_workers_have_no_port_for_it(
    composition: Composition, settings: Settings, workers: int, has_sockets: bool
) -> None:
    settings = replace(settings, http_port=0, grpc_port=0)
    async with (
        _listening(settings, composition, Crew.of(workers)) as servers,
        grpc.aio.insecure_channel(f"127.0.0.1:{servers.grpc.port}") as channel,
    ):
        by_call = GrpcStream(channel)
        welcome = await by_call.open()
        assert welcome.socket_port == (servers.http.port if has_sockets else 0)
        by_socket = await SocketStream.connect(servers.http.port, welcome.server_epoch)
        if has_sockets:
            assert (await by_socket.open(welcome.session_id)).session_id == welcome.session_id
        else:
            assert (await by_socket.reader.read()).startswith(b"HTTP/1.1 400")
        by_socket.leave()
        by_call.leave()


# What is said first.


async def test_a_hello_on_a_socket_names_its_server(connect: Connect) -> None:
    stream = await connect()
    await stream.send(pb.SessionRequest(hello=pb.SessionHello(client="test")))
    ended = await stream.ended()
    assert ended == Ended(
        "INVALID_INPUT", "the hello has no server_epoch, expected the one that the server was welcomed with"
    )


async def test_a_hello_is_waited_for_so_long(connect: Connect, sockets: SocketSessions, clock: Clock) -> None:
    stream = await connect()
    await until(lambda: repr(sockets).endswith(": 1 connections>"))
    clock.now += 9.9
    sockets.check()
    await stream.send_frame(Kind.PING)
    assert (await stream.frame()).kind is Kind.PONG
    clock.now += 0.1
    sockets.check()
    assert await stream.ended() == Ended("INVALID_INPUT", "no hello has come within 10 s")


async def test_an_end_is_no_hello(connect: Connect) -> None:
    stream = await connect()
    await stream.say_all()
    ended = await stream.ended()
    assert ended is not None
    assert ended.sentence == "the connection's first frame is its end, expected a message with a hello"


# What cannot be taken.


async def test_a_frame_that_is_too_large_is_refused_before_it_has_come(stream: SocketStream) -> None:
    stream.writer.write(frames.header(Kind.MESSAGE, MOST_BYTES + 1))
    ended = await stream.ended()
    assert ended == Ended(
        "TOO_LARGE",
        f"the message has {MOST_BYTES + 1} bytes, at most {MOST_BYTES} fit; send less in one, "
        "or start the server with a larger --max-grpc-message-mb",
    )


async def test_what_is_no_frame_is_refused(
    stream: SocketStream, services: Services, models: Models, load: Callable[[], Any]
) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, "slow")]), [row(1)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    stream.writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(200_000))
    ended = await stream.ended()
    assert ended is not None
    assert ended.code == "INVALID_INPUT"
    assert "expected a known kind" in ended.sentence
    assert services.refusals.counts == {("session", "INVALID_INPUT"): 1}
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)


async def test_a_message_behind_the_end_is_refused(stream: SocketStream, models: Models) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, "slow")]), [row(1)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    await stream.say_all()
    await stream.send(pb.SessionRequest())
    assert await stream.ended() == Ended("INVALID_INPUT", "a message has come after the end, expected none")


async def test_a_bug_ends_the_connection_and_says_so(stream: SocketStream, sockets: SocketSessions) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    (session,) = sockets._open
    session._stream.outbox._on_answer = fail
    await stream.send(pb.SessionRequest(executions=[execution(1)]), [row(1)])
    ended = await stream.ended()
    assert ended is not None
    assert ended.code == "INTERNAL"
    assert "a bug in the server" in ended.sentence


# Peers that come, stay and go.


async def test_a_ping_is_answered(stream: SocketStream) -> None:
    await stream.send_frame(Kind.PING)
    assert await stream.frame() == (Kind.PONG, b"")


async def test_a_silent_peer_is_asked_and_then_cut_off(
    stream: SocketStream, sockets: SocketSessions, clock: Clock
) -> None:
    clock.now += 30
    sockets.check()
    assert await stream.frame() == (Kind.PING, b"")
    await stream.send_frame(Kind.PONG)
    await stream.send_frame(Kind.PING)
    assert await stream.frame() == (Kind.PONG, b"")
    clock.now += 29.9
    sockets.check()
    clock.now += 0.1
    sockets.check()
    assert await stream.frame() == (Kind.PING, b"")
    clock.now += 10
    sockets.check()
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await stream.frame()
    await until(lambda: repr(sockets).endswith(": 0 connections>"))


async def test_a_client_that_goes_in_the_middle_of_a_frame_leaves_nothing(
    stream: SocketStream, sockets: SocketSessions, services: Services, models: Models
) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, "slow")]), [row(1)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    stream.writer.write(frames.header(Kind.MESSAGE, 500_000) + bytes(100_000))
    await stream.writer.drain()
    stream.writer.transport.abort()
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)
    await until(lambda: repr(sockets).endswith(": 0 connections>"))
    await until(lambda: repr(services.sessions) == "<SessionService: 0 sessions>")


async def test_a_client_that_has_said_all_may_close_its_side(
    stream: SocketStream, sockets: SocketSessions, models: Models, clock: Clock
) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, "slow")]), [row(1)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    await stream.say_all()
    stream.writer.write_eof()
    for _ in range(4):
        clock.now += 30
        sockets.check()
        assert await stream.frame() == (Kind.PING, b"")
    models["slow"].gate.open()
    assert (await stream.results(1))[1][1] == [row(1)]
    assert await stream.ended() is None


async def test_a_drain_ends_those_who_wait_and_those_who_have_said_nothing(
    stream: SocketStream, connect: Connect, sockets: SocketSessions, grpc_server: GrpcServer
) -> None:
    another = await connect()
    await until(lambda: repr(sockets).endswith(": 2 connections>"))
    assert repr(sockets.drain) == "<Drain: serving, 2 calls>"
    drain = asyncio.ensure_future(grpc_server.drain(10))
    for each in (stream, another):
        assert await each.ended() == Ended("SHUTTING_DOWN", "the server is shutting down")
    assert await drain == 0
    late = await connect()
    assert await late.ended() == Ended("SHUTTING_DOWN", "the server is shutting down")


async def test_who_does_not_close_after_the_end_is_cut_off(
    stream: SocketStream, sockets: SocketSessions, grpc_server: GrpcServer, clock: Clock
) -> None:
    drain = asyncio.ensure_future(grpc_server.drain(10))
    assert (await stream.frame()).kind is Kind.END
    await stream.send(pb.SessionRequest(executions=[execution(1)]), [row(1)])
    clock.now += 2
    sockets.check()
    assert await drain == 0


async def test_closing_all_ends_what_is_left(
    stream: SocketStream, sockets: SocketSessions, services: Services, models: Models
) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, "slow")]), [row(1)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    sockets.close()
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)
    with suppress(ConnectionResetError):
        assert await stream.reader.read() == b""
    assert sockets.port == 0


async def test_silent_peers_are_looked_for_by_and_by(stream: SocketStream, clock: Clock) -> None:
    clock.now += 30
    async with asyncio.timeout(LIMIT_S):
        assert await stream.frame() == (Kind.PING, b"")


async def test_a_client_that_does_not_read_waits_and_then_gets_everything(
    stream: SocketStream, sockets: SocketSessions
) -> None:
    (session,) = sockets._open
    sent = row(1, 60_000)

    async def send() -> None:
        for number in range(80):
            await stream.send(pb.SessionRequest(executions=[execution(number, rows=60_000)]), [sent])

    sending = asyncio.ensure_future(send())
    await until(lambda: not session._is_reading)
    got = await stream.results(80)
    await sending
    assert all(raw == [sent] for _, raw in got.values())
    assert session._is_reading


# How it is written.


class Recorded(asyncio.Transport):
    """Remembers the calls that were made."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.calls.append(list(list_of_data))

    def write_eof(self) -> None:
        self.calls.append("eof")

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.calls.append(protocol)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (0, None)

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        self.calls.append("abort")

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def kinds(self) -> list[Any]:
        """Say what was written, by kinds, and what else was called."""
        found: list[Any] = []
        for call in self.calls:
            first = call[0] if isinstance(call, list) else call
            if isinstance(first, bytes):
                kind = Kind(int.from_bytes(first[:4], "little")).name
                found.append([kind] if isinstance(call, list) else kind)
            else:
                found.append(call)
        self.calls.clear()
        return found


def _ignore(_job: Job, _number: int) -> None:
    """Have no model to count an answer for."""


class Driven:
    """A connection whose transport, and whose executions' ends, are the test's."""

    def __init__(self, sockets: SocketSessions, services: Services) -> None:
        self.transport = Recorded()
        hello = pb.SessionHello(client="test", server_epoch=services.health.identity.epoch)
        message = joined(pb.SessionRequest(hello=hello))
        sockets.take_over(self.transport, frames.header(Kind.MESSAGE, len(message)) + message)
        assert self.transport.calls[0] == "pause"
        self.session: SocketSession = self.transport.calls[1]
        assert self.transport.calls[2] == "resume"
        assert len(self.transport.calls) == 4
        self.transport.calls.clear()
        self.outbox = self.session._stream.outbox
        self.outbox._on_answer = _ignore

    def receive(self, *kinds: Kind) -> None:
        """Receive empty frames."""
        self.receive_bytes(b"".join(frames.frame(kind) for kind in kinds))

    def receive_bytes(self, data: bytes) -> None:
        """Receive whatever they are."""
        self.session.get_buffer(-1)[: len(data)] = data
        self.session.buffer_updated(len(data))

    def end(self, execution_id: int, byte_size: int = 4) -> None:
        """End an execution that took its time."""
        job = Job("m", Work((), (0,)), submitted_at=0.0)
        job.start(0.0)
        job.finish((Tensor(BY_NAME["u8"], (byte_size,), bytes(byte_size)),), 1.0)
        self.outbox.running[execution_id] = Running(job, (execution_id,))
        self.outbox.put((execution_id,), job)


@pytest_asyncio.fixture
async def driven(sockets: SocketSessions, services: Services) -> AsyncIterator[Driven]:
    made = Driven(sockets, services)
    yield made
    made.session.connection_lost(None)


async def a_turn() -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_soon(passed.set)
    await passed.wait()


async def test_results_of_one_turn_are_written_together(driven: Driven) -> None:
    driven.end(1)
    driven.end(2)
    assert driven.transport.kinds() == []
    await a_turn()
    (message,) = driven.transport.calls
    assert [list(each.ids) for each in pb.SessionResponse.FromString(message[8:]).results] == [[1], [2]]


async def test_what_a_message_has_ready_is_written_before_the_next_is_taken(driven: Driven) -> None:
    """Or whoever sent two halves of its executions would get them back as one, and wait in between."""
    messages = [joined(pb.SessionRequest(executions=[execution(at, "nobody")]), [row(1.0)]) for at in (1, 2)]
    driven.receive_bytes(b"".join(frames.frame(Kind.MESSAGE, each) for each in messages))
    answers = [pb.SessionResponse.FromString(written[8:]).results for written in driven.transport.calls]
    assert [[list(result.ids) for result in results] for results in answers] == [[[1]], [[2]]]


async def test_large_messages_are_not_copied_behind_their_headers(driven: Driven) -> None:
    driven.end(1, 500_000)
    driven.end(2, 700_000)
    await a_turn()
    assert driven.transport.kinds() == [["MESSAGE"], ["MESSAGE"]]


async def test_who_takes_nothing_is_written_nothing_more(driven: Driven) -> None:
    driven.session.pause_writing()
    driven.end(1)
    driven.receive(Kind.PING, Kind.PING, Kind.PING)
    await a_turn()
    assert driven.transport.kinds() == []
    driven.session.resume_writing()
    await a_turn()
    assert driven.transport.kinds() == ["PONG", "MESSAGE"]


async def test_who_lets_too_much_wait_is_listened_to_no_more(driven: Driven) -> None:
    driven.session.pause_writing()
    for number in range(65):
        driven.end(number, MOST_BYTES - 1000)
    await a_turn()
    assert driven.transport.kinds() == ["pause"]
    driven.session.resume_writing()
    await a_turn()
    assert driven.transport.kinds() == [*([["MESSAGE"]] * 65), "resume"]


async def test_the_end_waits_for_what_is_not_taken(driven: Driven) -> None:
    driven.session.pause_writing()
    driven.end(1)
    driven.receive(Kind.END)
    await a_turn()
    assert driven.transport.kinds() == []
    driven.session.resume_writing()
    await a_turn()
    assert driven.transport.kinds() == ["MESSAGE", "END", "eof"]
    driven.receive(Kind.PING)
    assert driven.transport.kinds() == []


async def test_who_was_not_listened_to_is_heard_until_it_closes(driven: Driven) -> None:
    driven.session.pause_writing()
    for number in range(65):
        driven.end(number, MOST_BYTES - 1000)
    await a_turn()
    driven.session._refuse(ServingError(Code.INTERNAL, "bad"))
    assert driven.transport.kinds() == ["pause", "END", "resume", "eof"]


async def test_a_stuck_peer_is_cut_off_though_it_is_not_listened_to(
    driven: Driven, sockets: SocketSessions, clock: Clock
) -> None:
    driven.transport.unsent = 100_000
    for after in (30, 10):
        clock.now += after
        sockets.check()
    assert driven.transport.kinds() == ["PING", "abort"]


# What it costs.


async def test_idle_connections_share_where_they_receive(driven: Driven, sockets: SocketSessions) -> None:
    another = Recorded()
    sockets.take_over(another, b"")
    mine, others = driven.session.get_buffer(-1), another.calls[1].get_buffer(-1)
    mine[:5] = b"hello"
    assert others[:5] == b"hello"
    another.calls[1].connection_lost(None)


async def test_an_idle_connection_keeps_little(connect: Connect, sockets: SocketSessions) -> None:
    number, most_bytes = 50, 15_000
    await (await connect()).open()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        streams = [await connect() for _ in range(number)]
        for stream in streams:
            await stream.open()
        # The client's ends are here, too: what they keep is beyond what is to be known.
        clients = sum(
            trace.size
            for trace in tracemalloc.take_snapshot().statistics("filename")
            if "streams.py" in trace.traceback[0].filename or "carriers.py" in trace.traceback[0].filename
        )
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before - clients) / number < most_bytes
    assert repr(sockets).endswith(f": {number + 1} connections>")


async def test_the_reprs_say_who_is_connected(stream: SocketStream, sockets: SocketSessions) -> None:
    (session,) = sockets._open
    assert repr(sockets) == f"<SocketSessions at port {sockets.port}: 1 connections>"
    assert repr(session).startswith("<SocketSession: <LifeSigns: TALK>, <SessionStream of <Session ")
    stream.leave()
