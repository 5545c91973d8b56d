"""How much is taken of who sends, and sent to who takes: neither side makes the other keep what it does not read."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc

import pytest
from tests.transport.rpc.raw_peer import RawPeer, framed
from tests.transport.served_methods import guard_of
from tests.waiting import a_turn, until

from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.service import AccessService
from inferwire_server.service.refusals import Refusals
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.guard import Guard
from inferwire_server.transport.rpc.methods import Method

MIB = 1 << 20
MANY_MIB = 8 * MIB
PEER_WINDOW = 65_535
UNAUTHENTICATED = 16
KEY = "the-key-of-the-tests"


class Reader:
    """A method that reads nothing until it is let, and answers with how many messages there were."""

    def __init__(self) -> None:
        self.may_read = asyncio.Event()
        self.byte_size = 0

    async def __call__(self, _: bytes, context: Context) -> bytes:
        await self.may_read.wait()
        messages = 0
        while (message := await context.read()) is not None:
            messages += 1
            self.byte_size += len(message)
        return b"%d" % messages


@pytest.mark.parametrize("size", [0, 1, 100, 10_000, MIB - 5])
async def test_a_call_that_does_not_read_stops_its_client(size: int) -> None:
    reader = Reader()
    peer = RawPeer(Method(reader, takes_stream=True))
    number = peer.begin()
    messages = 16 * MIB // max(size + 5, 20)
    data = framed(bytes(size)) * messages
    sent = peer.send_what_fits(number, data)
    # Of small ones, what each takes beside its bytes counts as well.
    assert (MIB if size < 10_000 else 4 * MIB) <= sent <= 9 * MIB
    assert sent < len(data)
    # Once it reads, all of it comes.
    reader.may_read.set()
    while sent < len(data):
        await until(lambda: peer.room(number) > 0)
        sent += peer.send_what_fits(number, data[sent:])
    peer.send(number, b"", end=True)
    assert (await peer.end_of(number)).data == framed(b"%d" % messages)
    assert reader.byte_size == messages * size


async def test_messages_that_are_not_read_are_not_unpacked() -> None:
    reader = Reader()
    peer = RawPeer(Method(reader, takes_stream=True), most_message_bytes=4 * MIB)
    data = framed(gzip.compress(bytes(4 * MIB)), 1) * 20
    tracemalloc.start()
    try:
        number = peer.begin({b"grpc-encoding": b"gzip"}, data, end=True)
        await a_turn()
        assert tracemalloc.get_traced_memory()[0] < 5 * 4 * MIB
    finally:
        tracemalloc.stop()
    reader.may_read.set()
    assert (await peer.end_of(number)).data == framed(b"20")


@pytest.mark.parametrize("takes_stream", [False, True])
async def test_a_message_longer_than_every_window_is_taken(*, takes_stream: bool) -> None:
    async def size(message: bytes, context: Context) -> bytes:
        whole = await context.read() if takes_stream else message
        return b"%d" % len(whole or b"")

    peer = RawPeer(Method(size, takes_stream), most_message_bytes=MANY_MIB)
    number = peer.begin()
    data = framed(bytes(MANY_MIB))
    sent = peer.send_what_fits(number, data)
    assert sent == len(data)
    peer.send(number, b"", end=True)
    assert (await peer.end_of(number)).data == framed(b"%d" % MANY_MIB)


async def test_no_more_is_taken_of_one_message_than_it_has() -> None:
    async def echo(message: bytes, context: Context) -> bytes:
        return message

    peer = RawPeer(Method(echo), most_message_bytes=MANY_MIB)
    number = peer.begin(data=framed(bytes(MANY_MIB))[: MIB // 2 + 1])
    left = MANY_MIB + 5 - (MIB // 2 + 1)
    assert peer.room(number) == left


class Writer:
    """A method that writes messages and counts them, and answers with nothing behind them."""

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.size = size
        self.written = 0

    async def __call__(self, message: bytes, context: Context) -> None:
        for _ in range(self.messages):
            await context.write(bytes(self.size))
            self.written += 1


@pytest.mark.parametrize("size", [10, 1000, 100_000])
async def test_a_client_that_does_not_take_stops_the_call(size: int) -> None:
    writer = Writer(400_000 // size, size)
    peer = RawPeer(Method(writer))
    peer.takes_data = False
    number = peer.begin(data=framed(b""), end=True)
    told = peer.told[number]
    await until(lambda: len(told.data) == PEER_WINDOW)
    for _ in range(3):
        await a_turn()
    assert len(told.data) == PEER_WINDOW
    assert PEER_WINDOW <= (writer.written + 1) * (size + 5) <= PEER_WINDOW + 2 * 65_536 + size + 5
    # Once it takes, all of it comes.
    peer.takes_data = True
    peer.take(number, PEER_WINDOW)
    await peer.end_of(number)
    assert told.data == framed(bytes(size)) * writer.messages
    assert told.status == 0


async def test_an_answer_waits_until_it_is_taken_and_the_call_does_not() -> None:
    async def large(_: bytes, context: Context) -> bytes:
        return bytes(MIB)

    peer = RawPeer(Method(large))
    peer.takes_data = False
    number = peer.begin(data=framed(b""), end=True)
    told = peer.told[number]
    await until(lambda: len(told.data) == PEER_WINDOW)
    await a_turn()
    assert peer.running == "<Dispatcher: 1 methods, 0 calls>"
    assert not told.has_ended
    peer.take(number, 2 * MIB)
    assert (told.data, told.status) == (framed(bytes(MIB)), 0)


def guarded() -> Guard:
    return Guard(Drain(), Refusals(), AccessService(ApiKeys.parse(KEY)))


async def test_nothing_of_a_message_is_taken_in_from_a_caller_without_a_key() -> None:
    called: list[bytes] = []

    async def noting(message: bytes, context: Context) -> bytes:
        called.append(message)
        return b""

    guard = guarded()
    for takes_stream in (False, True):
        peer = RawPeer(Method(noting, takes_stream), guard, most_message_bytes=MANY_MIB)
        number = peer.begin(data=framed(bytes(MANY_MIB))[:1000])
        told = peer.told[number]
        assert (told.status, told.room) == (UNAUTHENTICATED, 0)
        assert told.details == "no API key was given, expected one in 'authorization: Bearer KEY'"
        assert told.headers[b"inferwire-code"] == b"UNAUTHENTICATED"
        assert peer.running == "<Dispatcher: 1 methods, 0 calls>"
    assert called == []
    assert guard.refusals.counts == {("grpc", "UNAUTHENTICATED"): 2}


async def test_a_caller_with_a_key_is_let_in() -> None:
    async def echo(message: bytes, context: Context) -> bytes:
        return message

    peer = RawPeer(Method(echo), guarded())
    shown = {b"authorization": f"Bearer {KEY}".encode()}
    assert (await peer.answered(shown, framed(b"hello"))).data == framed(b"hello")
    told = await peer.answered({b"authorization": b"Bearer another-key-of-sixteen"}, framed(b"hello"))
    assert (told.status, told.details) == (UNAUTHENTICATED, "the API key is not one of this server's")


async def test_a_probe_without_a_key_is_answered_as_if_its_message_were_empty() -> None:
    called: list[bytes] = []

    async def probe(message: bytes, context: Context) -> bytes:
        called.append(message)
        return b"alive"

    guard = guarded()
    peer = RawPeer(Method(probe, is_keyless=True), guard, most_message_bytes=MANY_MIB)
    number = peer.begin()
    # It may send what it likes, as far as its room goes, and in whatever way.
    assert peer.send_what_fits(number, b"\xff" * MANY_MIB) == MIB
    told = await peer.end_of(number)
    assert (told.data, told.status, told.room) == (framed(b"alive"), 0, 0)
    assert called == [b""]
    shown = {b"authorization": f"Bearer {KEY}".encode()}
    await peer.answered(shown, framed(b"hello"))
    assert called == [b"", b"hello"]
    assert guard.refusals.counts == {}


async def test_a_watcher_without_a_key_takes_what_is_written_and_may_leave() -> None:
    writer = Writer(MANY_MIB, 1000)
    peer = RawPeer(Method(writer, is_keyless=True), guarded())
    peer.takes_data = False
    number = peer.begin(data=framed(b"hello"))
    told = peer.told[number]
    await until(lambda: len(told.data) == PEER_WINDOW)
    peer.take(number, PEER_WINDOW)
    peer.take(number, MIB)
    await until(lambda: len(told.data) > PEER_WINDOW)
    peer.reset(number)
    await until(lambda: peer.running == "<Dispatcher: 1 methods, 0 calls>")
    assert 0 < writer.written < writer.messages


async def test_a_probe_without_a_key_is_told_of_its_failure() -> None:
    drain = Drain()
    peer = RawPeer(Method(Writer(1, 1), is_keyless=True), Guard(drain, Refusals(), AccessService(ApiKeys.parse(KEY))))
    drain.close()
    told = await peer.answered(data=framed(b""))
    assert told.details == "the server is shutting down"


async def test_a_keyless_method_of_many_messages_runs_once() -> None:
    called: list[bytes] = []

    async def noting(message: bytes, context: Context) -> bytes:
        called.append(message)
        return b""

    peer = RawPeer(Method(noting, takes_stream=True, is_keyless=True), guarded())
    await peer.answered(data=framed(b""))
    await until(lambda: peer.running == "<Dispatcher: 1 methods, 0 calls>")
    assert called == [b""]


async def test_anybody_is_let_in_where_no_key_is_needed() -> None:
    writer = Writer(1, 1)
    assert (await RawPeer(Method(writer), guard_of()).answered(data=framed(b""))).status == 0
