"""What only sessions on plain sockets have: a preface at the gRPC port, frames, and peers that nobody else watches."""

from __future__ import annotations

import asyncio
import socket
import traceback
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from tests.clock import Clock
from tests.low_water import be_from_elsewhere, mark_beyond
from tests.transport.session.carriers import Ended, GrpcStream, SocketStream, joined
from tests.transport.session.driven import MOST_BYTES, execution, row
from tests.waiting import LIMIT_S, until

from inferwire_proto import frames
from inferwire_proto.errors import Code
from inferwire_proto.frames import PREFACE, Kind
from inferwire_proto.host.low_water import MOST_BYTES as MOST_AWAITED_BYTES
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.core.tensors import Tensor
from inferwire_server.crew import Crew
from inferwire_server.engine.brief_slot import TRIALS
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service import Services
from inferwire_server.settings import Settings
from inferwire_server.sockets import listening
from inferwire_server.transport.http2 import frames as http2
from inferwire_server.transport.keepalive import PeerTimeouts
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.session.socket_session import Give
from inferwire_server.transport.session.socket_sessions import SocketSessions

Models = dict[str, FakeModel]


@pytest.fixture
def models() -> Models:
    slow = FakeModel(echo_spec("slow"), gate=Gate(is_open=False), optimal_slots=1)
    return {
        "echo": FakeModel(echo_spec("echo")),
        "slow": slow,
        "brief": FakeModel(echo_spec("brief"), is_brief=True),
    }


@pytest.fixture
def grpc_options() -> GrpcOptions:
    return GrpcOptions(port=0, max_message_bytes=MOST_BYTES)


@pytest_asyncio.fixture
async def sockets(services: Services, clock: Clock) -> AsyncIterator[SocketSessions]:
    with SocketSessions(services, MOST_BYTES, PeerTimeouts(), clock) as sessions:
        yield sessions


@pytest_asyncio.fixture
async def connect(grpc_server: GrpcServer, services: Services) -> AsyncIterator[Callable[..., Awaitable[SocketStream]]]:
    """Connect, and say the preface or something else."""
    begun: list[SocketStream] = []

    async def begin(preface: bytes = PREFACE) -> SocketStream:
        begun.append(await SocketStream.connect(grpc_server.port, services.health.identity.epoch, preface=preface))
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


# The gRPC port.


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
    hello = joined(pb.SessionRequest(hello=stream.hello(), executions=[execution(1)]), [row(2)])
    message = joined(pb.SessionRequest(executions=[execution(2, rows=10_000)]), [row(3, 10_000)])
    assert len(message) > 2 * frames.SCRATCH_BYTES
    framed = [frames.header(Kind.MESSAGE, len(each)) + each for each in (hello, message)]
    stream.writer.write(PREFACE + b"".join(framed))
    assert pb.SessionResponse.FromString(await stream.message()).HasField("welcome")
    results = await stream.results(2)
    assert (results[1][1], results[2][1]) == ([row(2)], [row(3, 10_000)])


async def test_the_server_sleeps_until_a_good_part_of_a_large_message_has_come(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_from_elsewhere(monkeypatch)
    stream = await connect()
    await stream.open()
    own_name = stream.writer.get_extra_info("sockname")
    message = joined(pb.SessionRequest(executions=[execution(1, rows=20_000)]), [row(1, 20_000)])
    framed = frames.header(Kind.MESSAGE, len(message)) + message
    stream.writer.write(framed[:100_000])
    await until(lambda: mark_beyond(own_name) == MOST_AWAITED_BYTES)
    # How much of the rest comes together, the system decides.
    stream.writer.write(framed[100_000:])
    assert (await stream.results(1))[1][1] == [row(1, 20_000)]
    assert mark_beyond(own_name) == 1


async def test_nobody_has_room_kept_for_much_who_has_not_said_hello(connect: Connect) -> None:
    stream = await connect()
    stream.writer.write(frames.header(Kind.MESSAGE, frames.HELLO_BYTES + 1))
    assert await stream.ended() == Ended(
        "INVALID_INPUT",
        f"the connection begins with a frame of {frames.HELLO_BYTES + 1} bytes, expected a hello with at most "
        f"{frames.HELLO_BYTES}, and large messages behind it",
    )


async def test_grpc_at_the_same_port_is_grpc(connect: Connect, channel: grpc.aio.Channel) -> None:
    by_call, by_socket = GrpcStream(channel), await connect()
    welcome = await by_call.open()
    assert (await by_socket.open(welcome.session_id)).session_id == welcome.session_id
    by_call.leave()


@pytest.mark.parametrize("said", [b"inferwire session 2\r\n\r\n", PREFACE[:5] + b"no more", b"GET / HTTP/1.1\r\n\r\n"])
async def test_who_says_no_preface_is_told_what_is_spoken(connect: Connect, said: bytes) -> None:
    stream = await connect(preface=b"")
    for byte in said:
        stream.writer.write(bytes([byte]))
        await asyncio.to_thread(int)
    async with asyncio.timeout(LIMIT_S):
        assert b"this is the gRPC port" in await stream.reader.read()


async def test_a_connection_is_of_one_kind(connect: Connect, grpc_server: GrpcServer, sockets: SocketSessions) -> None:
    stream = await connect(preface=PREFACE[:-1])
    await until(lambda: grpc_server.connections == 1)
    assert sockets.connections == 0
    stream.writer.write(PREFACE[-1:])
    await stream.open()
    assert (grpc_server.connections, sockets.connections) == (0, 1)


async def test_the_preface_is_none_behind_that_of_grpc(connect: Connect, sockets: SocketSessions) -> None:
    stream = await connect(preface=http2.PREFACE + http2.settings({}) + PREFACE)
    async with asyncio.timeout(LIMIT_S):
        assert await stream.reader.read()
    assert sockets.connections == 0


async def test_a_server_without_sessions_on_sockets_refuses_them(services: Services) -> None:
    with SocketSessions(services, MOST_BYTES, are_taken=False) as sockets:
        async with GrpcServer(services, GrpcOptions(port=0), sockets) as server:
            stream = await SocketStream.connect(server.port, "")
            async with asyncio.timeout(LIMIT_S):
                assert b"this is the gRPC port" in await stream.reader.read()
            stream.leave()


async def test_a_unix_socket_holds_more_of_what_is_sent_than_by_itself(
    services: Services, sockets: SocketSessions, short_folder: Path
) -> None:
    path = short_folder / "grpc"
    async with GrpcServer(services, GrpcOptions(port=0, socket=path), sockets):
        stream = await SocketStream.connect_to_file(path, services.health.identity.epoch)
        await stream.open()
        (session,) = sockets._open
        taken: socket.socket = session._transport.get_extra_info("socket")
        with socket.socket(socket.AF_UNIX) as plain:
            by_itself = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > by_itself
        stream.leave()


@pytest.mark.parametrize("workers", [1, 2])
async def test_the_welcome_on_grpc_says_that_sockets_are_taken(
    composition: Composition, settings: Settings, tmp_path: Path, workers: int
) -> None:
    settings = replace(settings, http_port=0, grpc_port=0)
    async with (
        listening(settings, composition, Crew(0, workers, tmp_path, "token"), None) as servers,
        grpc.aio.insecure_channel(f"127.0.0.1:{servers.grpc.port}") as channel,
    ):
        by_call = GrpcStream(channel)
        welcome = await by_call.open()
        assert welcome.takes_sockets
        by_socket = await SocketStream.connect(servers.grpc.port, welcome.server_epoch)
        assert (await by_socket.open(welcome.session_id)).session_id == welcome.session_id
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


async def test_a_connection_for_another_process_is_given_to_it_with_what_has_come(
    connect: Connect, sockets: SocketSessions
) -> None:
    given: list[tuple[str, socket.socket, bytes]] = []

    def give(epoch: str, transport: asyncio.Transport, came: bytes) -> None:
        given.append((epoch, transport.get_extra_info("socket").dup(), came))

    def give_to(epoch: str) -> Give:
        return partial(give, epoch)

    sockets._around = replace(sockets._around, give_to=give_to)
    stream = await connect()
    hello = frames.frame(Kind.MESSAGE, joined(pb.SessionRequest(hello=pb.SessionHello(server_epoch="another"))))
    ping, more = frames.frame(Kind.PING), frames.header(Kind.MESSAGE, 100_000) + b"some of it"
    stream.writer.write(ping + hello + more)
    await until(lambda: bool(given))
    ((epoch, connection, came),) = given
    assert (epoch, came) == ("another", ping + hello + more)
    await until(lambda: repr(sockets).endswith(": 0 connections>"))
    with connection:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(connection, frames.frame(Kind.PONG))
        assert (await stream.frame()).kind is Kind.PONG


async def test_a_connection_that_its_process_does_not_take_is_refused(
    connect: Connect, sockets: SocketSessions
) -> None:
    def give(_transport: asyncio.Transport, _came: bytes) -> None:
        raise ServingError(Code.SHUTTING_DOWN, "it has gone")

    def give_to(_epoch: str) -> Give:
        return give

    sockets._around = replace(sockets._around, give_to=give_to)
    stream = await connect()
    await stream.send(pb.SessionRequest(hello=pb.SessionHello(server_epoch="another")))
    assert await stream.ended() == Ended("SHUTTING_DOWN", "it has gone")


async def test_what_is_no_frame_behind_a_hello_for_another_process_is_refused(
    connect: Connect, sockets: SocketSessions
) -> None:
    def give(_transport: asyncio.Transport, _came: bytes) -> None:
        raise AssertionError("what cannot be read is given to nobody")

    def give_to(_epoch: str) -> Give:
        return give

    sockets._around = replace(sockets._around, give_to=give_to)
    stream = await connect()
    hello = frames.frame(Kind.MESSAGE, joined(pb.SessionRequest(hello=pb.SessionHello(server_epoch="another"))))
    stream.writer.write(hello + b"no frame at all")
    ended = await stream.ended()
    assert ended is not None
    assert ended.code == "INVALID_INPUT"
    assert "expected a known kind" in ended.sentence


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
    stream: SocketStream, connect: Connect, sockets: SocketSessions, grpc_server: GrpcServer, models: Models
) -> None:
    another, busy = await connect(), await connect()
    await busy.open()
    await busy.send(pb.SessionRequest(executions=[execution(1, "slow")]), [row(1)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    assert repr(sockets).endswith(": 3 connections>")
    assert repr(sockets.drain) == "<Drain: serving, 3 calls>"
    drain = asyncio.ensure_future(grpc_server.drain(10))
    for each in (stream, another, await connect()):
        assert await each.ended() == Ended("SHUTTING_DOWN", "the server is shutting down")
    models["slow"].gate.open()
    assert (await busy.results(1))[1][1] == [row(1)]
    assert await busy.ended() == Ended("SHUTTING_DOWN", "the server is shutting down")
    assert await drain == 0


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


# What it costs.


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
    assert repr(sockets) == "<SocketSessions: 1 connections>"
    assert repr(session).startswith("<SocketSession: <Keepalive: TALK>, <SessionStream of <Session ")
    stream.leave()


async def test_of_many_that_come_together_some_run_at_once_and_the_others_wait_for_their_turn(
    stream: SocketStream, models: Models, clock: Clock
) -> None:
    at_once: list[bool] = []

    def take_a_while(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        at_once.append("buffer_updated" in [frame.name for frame in traceback.extract_stack()])
        clock.now += 0.0003
        return (inputs[0],)

    models["brief"].compute = take_a_while
    for number in range(TRIALS):
        await stream.send(pb.SessionRequest(executions=[execution(number, "brief")]), [row(number)])
        await stream.results(1)
    at_once.clear()
    messages = [joined(pb.SessionRequest(executions=[execution(9 + at, "brief")]), [row(at)]) for at in range(4)]
    stream.writer.write(b"".join(frames.frame(Kind.MESSAGE, message) for message in messages))
    assert sorted(await stream.results(4)) == [9, 10, 11, 12]
    assert at_once == [True, True, False, False]
