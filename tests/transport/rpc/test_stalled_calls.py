"""Calls whose callers do not go on: how they end, and which only look as if they were of that kind."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from h2.errors import ErrorCodes
from tests.transport.rpc.raw_peer import PATH, RawPeer, Told, framed
from tests.transport.served_methods import guard_of, served_methods
from tests.waiting import a_turn, until

from inferwire_proto.errors import CODE_METADATA
from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.service import AccessService
from inferwire_server.service.refusals import Refusals
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.http2.protocol import Http2Timeouts
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.guard import Guard
from inferwire_server.transport.rpc.methods import Method

MIB = 1 << 20
DEADLINE_EXCEEDED = 4
NOTHING_SENT = "no more of the message has come for too long"
NOTHING_TAKEN = "no more of the answer has been taken for too long"
IDLE = "<Dispatcher: 1 methods, 0 calls>"


def wait(peer: RawPeer, *, times: int = 1) -> None:
    """Let more than a minute pass, at whose ends the connection is looked at, so many times."""
    for time in range(times):
        peer.connection.look(100.0 * time, 0, 60)
        peer.connection.look(100.0 * time + 60, 0, 60)


def check_is_told(told: Told, sentence: str) -> None:
    assert (told.status, told.details) == (DEADLINE_EXCEEDED, sentence)
    assert (told.trailers or told.headers)[CODE_METADATA.encode()] == b"DEADLINE_EXCEEDED"


class Counted:
    """What calls do here: they count what they read, and are answered when a test says so."""

    def __init__(self) -> None:
        self.read = 0
        self.may_read = asyncio.Event()
        self.may_end = asyncio.Event()
        self.cancelled = 0

    async def one(self, message: bytes, _: Context) -> bytes:
        """Answer one message."""
        return await self._end()

    async def many(self, _: bytes, context: Context) -> bytes:
        """Read many messages, and answer them together."""
        try:
            await self.may_read.wait()
            while await context.read() is not None:
                self.read += 1
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await self._end()

    async def _end(self) -> bytes:
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return b"done"


@pytest.fixture
def method() -> Counted:
    return Counted()


@pytest.mark.parametrize("sent", [b"", b"\0\0", framed(bytes(100))[:50], framed(b"hello")])
async def test_a_call_whose_only_message_does_not_come_is_refused(method: Counted, sent: bytes) -> None:
    guard = guard_of()
    peer = RawPeer(Method(method.one), guard)
    number = peer.begin(data=sent or None)
    wait(peer)
    told = await peer.end_of(number)
    check_is_told(told, NOTHING_SENT)
    assert (peer.running, guard.refusals.counts) == (IDLE, {("grpc", "DEADLINE_EXCEEDED"): 1})
    assert not peer.connection.streams.open


async def test_who_sends_on_after_that_is_told_that_nobody_hears_it(method: Counted) -> None:
    peer = RawPeer(Method(method.one))
    number = peer.begin(data=framed(bytes(100))[:50])
    wait(peer)
    peer.send(number, bytes(10))
    assert peer.told[number].reset == ErrorCodes.NO_ERROR


async def test_a_call_of_many_messages_of_which_one_breaks_off_is_cancelled(method: Counted) -> None:
    peer = RawPeer(Method(method.many, takes_stream=True))
    method.may_read.set()
    number = peer.begin(data=framed(b"a") + framed(b"b")[:-1])
    await until(lambda: method.read == 1)
    wait(peer)
    check_is_told(await peer.end_of(number), NOTHING_SENT)
    assert (method.cancelled, peer.running) == (1, IDLE)


async def test_a_call_of_many_messages_may_be_silent_between_them_for_as_long_as_it_likes(method: Counted) -> None:
    peer = RawPeer(Method(method.many, takes_stream=True))
    method.may_read.set()
    number = peer.begin()
    for count in range(3):
        await a_turn()
        wait(peer, times=3)
        peer.send(number, framed(b"message"))
        await until(lambda count=count: method.read == count + 1)
    wait(peer, times=3)
    peer.send(number, b"", end=True)
    method.may_end.set()
    assert (await peer.end_of(number)).data == framed(b"done")


@pytest.mark.parametrize("kind", ["one", "many"])
async def test_a_call_that_runs_for_long_is_not_its_callers_fault(method: Counted, kind: str) -> None:
    takes_stream = kind == "many"
    peer = RawPeer(Method(method.many if takes_stream else method.one, takes_stream))
    method.may_read.set()
    number = peer.begin(data=framed(b"hello"), end=True)
    await a_turn()
    wait(peer, times=3)
    method.may_end.set()
    assert (await peer.end_of(number)).data == framed(b"done")


async def test_who_may_send_no_more_until_the_call_reads_is_waited_for(method: Counted) -> None:
    peer = RawPeer(Method(method.many, takes_stream=True), most_message_bytes=4 * MIB)
    number = peer.begin()
    data = framed(bytes(MIB)) * 10
    sent = peer.send_what_fits(number, data)
    assert MIB < sent < len(data)
    wait(peer, times=3)
    method.may_read.set()
    while sent < len(data):
        await until(lambda: peer.room(number) > 0)
        sent += peer.send_what_fits(number, data[sent:])
    peer.send(number, b"", end=True)
    method.may_end.set()
    assert (await peer.end_of(number)).data == framed(b"done")
    assert method.read == 10


async def test_a_message_that_is_refused_is_told_when_it_is_read_however_long_that_takes(method: Counted) -> None:
    peer = RawPeer(Method(method.many, takes_stream=True), most_message_bytes=10)
    number = peer.begin(data=framed(bytes(11))[:-1])
    wait(peer, times=3)
    method.may_read.set()
    assert (await peer.end_of(number)).headers[CODE_METADATA.encode()] == b"TOO_LARGE"


async def test_an_answer_that_its_caller_does_not_take_is_not_kept() -> None:
    async def large(_: bytes, context: Context) -> bytes:
        return bytes(MIB)

    peer = RawPeer(Method(large))
    peer.takes_data = False
    number = peer.begin(data=framed(b""), end=True)
    await until(lambda: peer.connection.outflow.unsent > 0)
    wait(peer)
    check_is_told(await peer.end_of(number), NOTHING_TAKEN)
    assert (peer.running, peer.connection.outflow.unsent) == (IDLE, 0)
    assert not peer.connection.streams.open


class Writer:
    """A method that writes much, and hears whether it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = 0

    async def __call__(self, message: bytes, context: Context) -> None:
        try:
            while True:
                await context.write(bytes(100_000))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@pytest.mark.parametrize("shows_key", [True, False])
async def test_a_call_that_writes_to_who_does_not_take_it_is_cancelled(*, shows_key: bool) -> None:
    access = AccessService() if shows_key else AccessService(ApiKeys.parse("the-key-of-the-tests"))
    writer = Writer()
    peer = RawPeer(Method(writer, is_keyless=True), Guard(Drain(), Refusals(), access))
    peer.takes_data = False
    number = peer.begin(data=framed(b""), end=True)
    await until(lambda: peer.connection.outflow.unsent > 0)
    wait(peer)
    check_is_told(await peer.end_of(number), NOTHING_TAKEN)
    await until(lambda: peer.running == IDLE)
    assert (writer.cancelled, peer.connection.outflow.unsent) == (1, 0)


async def test_what_is_told_soon_anyway_is_told_so(method: Counted) -> None:
    peer = RawPeer(Method(method.one))
    number = peer.begin({b":path": b"/tests.Calls/Nothing"})
    wait(peer)
    assert peer.told[number].headers == {}
    assert (await peer.end_of(number)).status == grpc.StatusCode.UNIMPLEMENTED.value[0]


async def read_all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_grpcs_own_client_hears_why_when_it_reads_on_after_all() -> None:
    guard, writer = guard_of(), Writer()
    timeouts = Http2Timeouts(stall_s=0.05, look_s=0.01)
    async with (
        served_methods({PATH: Method(writer)}, guard, timeouts=timeouts) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        call: Any = channel.unary_stream(PATH)(b"")
        assert await call.read() == bytes(100_000)
        await until(lambda: guard.refusals.counts == {("grpc", "DEADLINE_EXCEEDED"): 1})
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await read_all(call)
    assert (raised.value.code(), raised.value.details()) == (grpc.StatusCode.DEADLINE_EXCEEDED, NOTHING_TAKEN)
    assert writer.cancelled == 1
