"""How calls end: by their time limit, by their caller, with their connection, or with the server."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest
from h2.errors import ErrorCodes
from tests.transport.rpc.raw_peer import RawPeer, framed
from tests.transport.served_methods import guard_of
from tests.waiting import a_turn, until

from inferwire_proto.errors import CODE_METADATA
from inferwire_server.errors import invalid_input
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.http2 import frames
from inferwire_server.transport.rpc import dispatcher, unread
from inferwire_server.transport.rpc.call import RpcCall
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import Method

CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE = 1, 4, 14
IDLE = "<Dispatcher: 1 methods, 0 calls>"
SOON = {b"grpc-timeout": b"20m"}
AS_IT_RUNS = {b"grpc-timeout": b"500m"}
"""Late enough for a call to have begun by then, also on a busy machine."""
AT_ONCE = {b"grpc-timeout": b"1n"}
LATE = {b"grpc-timeout": b"1H"}
MUCH = bytes(2 * frames.DEFAULT_WINDOW)


class Held:
    """A method whose calls run until they are let go or cancelled."""

    def __init__(self) -> None:
        self.answer = b"done"
        self.may_end = asyncio.Event()
        self.begun: list[bytes] = []
        self.cancelled = 0

    async def __call__(self, message: bytes, context: Context) -> bytes:
        self.begun.append(message)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.answer

    async def reading(self, _: bytes, context: Context) -> None:
        """Read what never comes, once the first message has."""
        try:
            while (message := await context.read()) is not None:
                self.begun.append(message)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def has_begun(self) -> None:
        await until(lambda: bool(self.begun))


def peers(held: Held) -> dict[str, RawPeer]:
    """Give peers of what takes one message, or many: to these the same happens."""
    return {"one": RawPeer(Method(held)), "many": RawPeer(Method(held.reading, takes_stream=True))}


@pytest.fixture
def held() -> Held:
    return Held()


async def test_a_call_whose_message_is_not_whole_in_time_has_its_deadline_exceeded(held: Held) -> None:
    peer = RawPeer(Method(held))
    number = peer.begin(SOON, framed(b"hello")[:-1])
    told = await peer.end_of(number)
    assert (told.status, told.details) == (DEADLINE_EXCEEDED, "Deadline Exceeded")
    assert (held.begun, peer.running) == ([], IDLE)
    assert not peer.connection.streams.open


@pytest.mark.parametrize("kind", ["one", "many"])
async def test_a_call_that_runs_too_long_is_cancelled_and_has_its_deadline_exceeded(held: Held, kind: str) -> None:
    peer = peers(held)[kind]
    number = peer.begin(AS_IT_RUNS, framed(b"hello"), end=kind == "one")
    told = await peer.end_of(number)
    assert (told.status, told.details) == (DEADLINE_EXCEEDED, "Deadline Exceeded")
    assert (held.begun, held.cancelled) == ([b"hello"], 1)
    assert peer.running == IDLE
    assert not peer.connection.streams.open


@pytest.mark.parametrize("kind", ["one", "many"])
async def test_a_call_whose_time_is_up_before_it_begins_has_its_deadline_exceeded(held: Held, kind: str) -> None:
    peer = peers(held)[kind]
    number = peer.begin(AT_ONCE, framed(b"hello"), end=True)
    told = await peer.end_of(number)
    assert told.status == DEADLINE_EXCEEDED
    assert peer.running == IDLE
    assert not peer.connection.streams.open


async def test_the_deadline_holds_while_a_call_waits_to_write(held: Held) -> None:
    async def writing(message: bytes, context: Context) -> None:
        held.begun.append(b"")
        for _ in range(1000):
            await context.write(bytes(1000))

    peer = RawPeer(Method(writing))
    peer.takes_data = False
    number = peer.begin(AS_IT_RUNS, framed(b""), end=True)
    await held.has_begun()
    await until(lambda: peer.running == IDLE)
    peer.take(number, 1 << 20)
    told = await peer.end_of(number)
    assert told.status == DEADLINE_EXCEEDED


async def test_an_answer_that_its_caller_does_not_take_in_time_is_given_up() -> None:
    async def long(_: bytes, context: Context) -> bytes:
        return bytes(1 << 20)

    peer = RawPeer(Method(long))
    peer.takes_data = False
    number = peer.begin(AS_IT_RUNS, framed(b""), end=True)
    told = await peer.end_of(number)
    assert (told.reset, told.trailers, peer.running) == (ErrorCodes.CANCEL, {}, IDLE)
    assert not peer.connection.streams.open


async def test_a_call_that_was_refused_and_whose_time_is_up_then_ends_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread, "_FIRST_DATA_S", 0.05)

    async def refusing(_: bytes, context: Context) -> bytes:
        raise invalid_input("it is no use")

    peer = RawPeer(Method(refusing, takes_stream=True))
    told = await peer.end_of(peer.begin(SOON))
    assert (told.reset, told.headers) == (ErrorCodes.CANCEL, {})
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, passed.set)
    await passed.wait()
    assert (told.headers, caplog.records) == ({}, [])


async def test_a_call_that_ends_in_time_is_not_bound_any_more(held: Held) -> None:
    peer = RawPeer(Method(held))
    held.may_end.set()
    told = await peer.answered(LATE, framed(b"hello"))
    assert (told.data, told.status) == (framed(b"done"), 0)
    assert peer.running == IDLE


def calls_in_memory() -> int:
    gc.collect()
    return sum(isinstance(thing, RpcCall) for thing in gc.get_objects())


@pytest.mark.parametrize("kind", ["one", "many"])
async def test_nothing_keeps_a_call_that_has_ended(held: Held, kind: str) -> None:
    peer = peers(held)[kind]
    held.may_end.set()
    before = calls_in_memory()
    for _ in range(10):
        await peer.answered(LATE, framed(b"hello"))
        await peer.answered(LATE, framed(b"hello")[:-1])
        peer.reset(peer.begin(LATE, framed(b"hello")))
    await until(lambda: peer.running == IDLE)
    await a_turn()
    assert calls_in_memory() == before


def give_up(peer: RawPeer, number: int) -> None:
    peer.reset(number)


def lose(peer: RawPeer, _: int) -> None:
    peer.connection.lose()


def take(peer: RawPeer, number: int) -> None:
    peer.take(number, len(MUCH))


@pytest.mark.parametrize("end", [take, give_up, lose])
async def test_nothing_keeps_a_call_that_has_ended_before_its_answer_was_taken(
    held: Held, end: Callable[[RawPeer, int], None]
) -> None:
    held.answer = MUCH
    held.may_end.set()
    before = calls_in_memory()
    peer = RawPeer(Method(held))
    peer.takes_data = False
    number = peer.begin(LATE, framed(b"hello"), end=True)
    await until(lambda: len(peer.told[number].data) == frames.DEFAULT_WINDOW)
    await until(lambda: peer.running == IDLE)
    end(peer, number)
    await a_turn()
    assert not peer.connection.streams.open
    assert calls_in_memory() == before


async def test_nothing_keeps_a_call_that_was_refused_before_its_caller_had_sent_more_than_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unread, "_FIRST_DATA_S", 0.0)

    async def refusing(_: bytes, context: Context) -> bytes:
        raise invalid_input("it is no use")

    before = calls_in_memory()
    peer = RawPeer(Method(refusing, takes_stream=True))
    assert (await peer.end_of(peer.begin(LATE))).details == "it is no use"
    await a_turn()
    assert calls_in_memory() == before


async def test_what_a_call_gives_although_its_time_is_up_is_its_answer() -> None:
    async def stubborn(_: bytes, context: Context) -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return b"late"
        raise AssertionError

    told = await RawPeer(Method(stubborn)).answered(AS_IT_RUNS, framed(b""))
    assert told.data == framed(b"late")


LEAVING = pytest.mark.parametrize("leave", [give_up, lose])


@LEAVING
async def test_a_call_that_its_caller_leaves_before_it_begins_is_forgotten(
    held: Held, leave: Callable[[RawPeer, int], None]
) -> None:
    peer = RawPeer(Method(held))
    number = peer.begin(LATE, framed(b"hello"))
    leave(peer, number)
    assert (held.begun, peer.running) == ([], IDLE)
    assert not peer.connection.streams.open


@LEAVING
@pytest.mark.parametrize("kind", ["one", "many"])
async def test_a_call_that_its_caller_leaves_is_cancelled(
    held: Held, kind: str, leave: Callable[[RawPeer, int], None]
) -> None:
    peer = peers(held)[kind]
    number = peer.begin(LATE, framed(b"hello"), end=kind == "one")
    await held.has_begun()
    leave(peer, number)
    await until(lambda: peer.running == IDLE)
    assert (held.begun, held.cancelled) == ([b"hello"], 1)
    assert not peer.connection.streams.open
    assert not peer.told[number].headers


@pytest.mark.parametrize("kind", ["one", "many"])
async def test_a_call_that_is_left_in_the_bytes_that_begin_it_is_forgotten(held: Held, kind: str) -> None:
    peer = peers(held)[kind]
    number = peer.begin(LATE)
    peer.reset_at_once(number, framed(b"hello"))
    await until(lambda: peer.running == IDLE)
    assert not peer.connection.streams.open


async def test_a_call_that_is_left_while_it_waits_to_write_is_cancelled(held: Held) -> None:
    async def writing(message: bytes, context: Context) -> None:
        held.begun.append(b"")
        try:
            for _ in range(1000):
                await context.write(bytes(1000))
        except asyncio.CancelledError:
            held.cancelled += 1
            raise

    peer = RawPeer(Method(writing))
    peer.takes_data = False
    number = peer.begin(data=framed(b""), end=True)
    await held.has_begun()
    peer.reset(number)
    await until(lambda: peer.running == IDLE)
    assert held.cancelled == 1


async def test_a_call_that_writes_to_nobody_is_cancelled() -> None:
    begun = asyncio.Event()
    done: list[str] = []

    async def late(_: bytes, context: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            done.append("cancelled")
            await context.write(b"bye")
            done.append("written")

    peer = RawPeer(Method(late))
    number = peer.begin(data=framed(b""), end=True)
    await begun.wait()
    peer.reset(number)
    await until(lambda: peer.running == IDLE)
    assert done == ["cancelled"]
    assert not peer.told[number].headers


async def test_what_a_call_gives_to_nobody_is_dropped() -> None:
    begun = asyncio.Event()

    async def stubborn(_: bytes, context: Context) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return b"late"
        raise AssertionError

    peer = RawPeer(Method(stubborn))
    number = peer.begin(data=framed(b""), end=True)
    await begun.wait()
    peer.reset(number)
    await until(lambda: peer.running == IDLE)
    assert not peer.told[number].headers


async def test_a_call_is_cancelled_once_and_may_end_in_peace() -> None:
    begun, is_ending, may_end, has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def tidy(_: bytes, context: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_ending.set()
            await may_end.wait()
            has_ended.set()

    peer = RawPeer(Method(tidy))
    number = peer.begin(AS_IT_RUNS, framed(b""), end=True)
    await is_ending.wait()
    # Its caller's time is up as well.
    peer.reset(number)
    await a_turn()
    may_end.set()
    await until(lambda: peer.running == IDLE)
    assert has_ended.is_set()


async def test_calls_that_outlive_their_callers_count_as_what_a_connection_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[bytes] = []
    may_end = asyncio.Event()

    async def lasting(message: bytes, context: Context) -> bytes:
        begun.append(message)
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
        raise AssertionError

    monkeypatch.setattr(dispatcher, "MOST_STREAMS", 2)
    peer = RawPeer(Method(lasting))
    for count in (1, 2):
        number = peer.begin(data=framed(b""), end=True)
        await until(lambda count=count: len(begun) == count)
        peer.reset(number)
    assert (await peer.answered(data=framed(b""))).reset == ErrorCodes.REFUSED_STREAM
    may_end.set()
    await until(lambda: peer.running == IDLE)
    peer.begin(data=framed(b""), end=True)
    await until(lambda: len(begun) == 3)
    await peer.dispatcher.end()


async def test_a_call_that_is_cancelled_by_itself_tells_its_caller() -> None:
    async def cancelled(_: bytes, context: Context) -> bytes:
        raise asyncio.CancelledError

    told = await RawPeer(Method(cancelled)).answered(data=framed(b""))
    assert (told.status, told.details) == (CANCELLED, "the call was cancelled")


@pytest.mark.parametrize("kind", ["one", "many"])
async def test_the_end_of_the_dispatcher_cancels_what_runs_and_waits_for_it(held: Held, kind: str) -> None:
    peer = peers(held)[kind]
    number = peer.begin(data=framed(b"hello"), end=kind == "one")
    waiting = peer.begin(data=framed(b"hello")[:-1]) if kind == "one" else None
    await held.has_begun()
    assert peer.running == f"<Dispatcher: 1 methods, {1 if waiting is None else 2} calls>"
    await peer.dispatcher.end()
    assert held.cancelled == 1
    assert peer.told[number].status == CANCELLED
    peer.connection.lose()
    assert peer.running == IDLE


async def test_the_end_of_the_dispatcher_waits_for_what_takes_long_to_end() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def tidy(_: bytes, context: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()

    peer = RawPeer(Method(tidy))
    peer.begin(data=framed(b""), end=True)
    await begun.wait()
    ending = asyncio.ensure_future(peer.dispatcher.end())
    await a_turn()
    await a_turn()
    assert not ending.done()
    may_end.set()
    await ending
    assert peer.running == IDLE


async def test_the_end_of_a_dispatcher_without_calls_is_at_once(held: Held) -> None:
    await RawPeer(Method(held)).dispatcher.end()


@pytest.mark.parametrize("kind", ["one", "many"])
async def test_calls_that_begin_once_the_server_is_closed_are_told_to_go_elsewhere(held: Held, kind: str) -> None:
    drain = Drain()
    guard = guard_of(drain)
    peer = RawPeer(Method(held, takes_stream=kind == "many"), guard)
    drain.close()
    told = await peer.answered(data=framed(b"hello"))
    assert (told.status, told.details) == (UNAVAILABLE, "the server is shutting down")
    assert told.headers[CODE_METADATA.encode()] == b"SHUTTING_DOWN"
    assert guard.refusals.counts == {("grpc", "SHUTTING_DOWN"): 1}
    assert not drain.is_busy
    assert held.begun == []


async def test_a_call_whose_message_is_on_its_way_then_is_refused_before_all_of_it_has_come(held: Held) -> None:
    drain = Drain()
    guard = guard_of(drain)
    peer = RawPeer(Method(held), guard)
    drain.close()
    told = await peer.end_of(number := peer.begin(data=framed(b"hello")[:-1]))
    assert (told.status, told.headers[CODE_METADATA.encode()]) == (UNAVAILABLE, b"SHUTTING_DOWN")
    peer.send(number, b"o")
    assert (told.reset, guard.refusals.counts) == (ErrorCodes.NO_ERROR, {("grpc", "SHUTTING_DOWN"): 1})
    assert (held.begun, peer.running) == ([], IDLE)


@pytest.mark.parametrize("sent", [None, framed(b"hello")[:-1], framed(b"hello")])
async def test_calls_that_have_not_begun_are_refused_when_no_more_may(held: Held, sent: bytes | None) -> None:
    guard = guard_of()
    peer = RawPeer(Method(held), guard)
    running, arriving = peer.begin(data=framed(b"hello"), end=True), peer.begin(data=sent)
    await held.has_begun()
    peer.dispatcher.refuse_unbegun()
    told = await peer.end_of(arriving)
    assert (told.status, told.details) == (UNAVAILABLE, "the server is shutting down")
    assert (told.headers[CODE_METADATA.encode()], guard.refusals.counts) == (
        b"SHUTTING_DOWN",
        {("grpc", "SHUTTING_DOWN"): 1},
    )
    held.may_end.set()
    assert (await peer.end_of(running)).data == framed(b"done")


async def test_calls_of_many_messages_have_begun_whatever_has_come_of_them(held: Held) -> None:
    peer = RawPeer(Method(held.reading, takes_stream=True))
    number = peer.begin(data=framed(b"hello") + framed(b"hello")[:-1])
    await held.has_begun()
    peer.dispatcher.refuse_unbegun()
    peer.send(number, b"o", end=True)
    assert (await peer.end_of(number)).status == 0
    assert held.begun == [b"hello"] * 2


async def test_the_drain_counts_a_call_while_it_runs(held: Held) -> None:
    drain = Drain()
    peer = RawPeer(Method(held), guard_of(drain))
    number = peer.begin(data=framed(b"hello")[:-1])
    await a_turn()
    assert not drain.is_busy
    peer.send(number, b"o", end=True)
    await held.has_begun()
    assert drain.is_busy
    held.may_end.set()
    await peer.end_of(number)
    assert not drain.is_busy


async def test_the_repr_of_a_call_says_how_far_it_is(held: Held) -> None:
    peer = RawPeer(Method(held))
    number = peer.begin(data=framed(b"hello")[:-1])
    call = peer.connection.streams.open[number].receiver
    assert repr(call) == "<RpcCall /tests.Calls/Call: not begun>"
    peer.send(number, b"o", end=True)
    assert repr(call) == "<RpcCall /tests.Calls/Call: running>"
    held.may_end.set()
    await peer.end_of(number)
    assert repr(call) == "<RpcCall /tests.Calls/Call: over>"
