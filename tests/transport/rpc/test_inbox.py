"""What comes in on a call, without the call: `test_call_flow` says how much may."""

from __future__ import annotations

import asyncio
import tracemalloc
from itertools import pairwise

import pytest
from tests.transport.rpc.raw_peer import framed
from tests.waiting import a_turn

from inferwire_server.errors import ServingError
from inferwire_server.transport.http2.outflow import Outflow
from inferwire_server.transport.http2.stream import Stream
from inferwire_server.transport.rpc.inbox import Inbox
from inferwire_server.transport.rpc.messages import PREFIX
from inferwire_server.transport.rpc.status import RpcStatus

MOST_READY = 256
"""How many messages are taken out of what has come before others have a turn."""


def an_inbox(*, takes_many: bool) -> Inbox:
    stream = Stream(1, Outflow(lambda _: None), lambda _: None)
    return Inbox(stream, "identity", 1000, takes_many=takes_many)


def take(inbox: Inbox, data: bytes, *, is_last: bool = False) -> None:
    inbox.take(memoryview(data), is_last=is_last)


def only(inbox: Inbox, data: bytes) -> bytes:
    """Take the last of the data, and give the one message there is to be."""
    take(inbox, data, is_last=True)
    return inbox.only()


def test_the_only_message_is_there_once_all_of_it_has_come() -> None:
    inbox = an_inbox(takes_many=False)
    take(inbox, framed(b"abc")[:6])
    assert repr(inbox) == "<Inbox: 0 messages wait, 2 bytes of another are missing>"
    assert only(inbox, b"bc") == b"abc"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (framed(b"a") * 2, "more messages than one"),
        (framed(b"a") + b"\0", "in the middle of a message"),
        (b"", "before its message"),
    ],
)
def test_there_has_to_be_one_where_there_is_one_to_be(data: bytes, why: str) -> None:
    with pytest.raises(RpcStatus, match=why):
        only(an_inbox(takes_many=False), data)


async def test_who_reads_many_waits_for_each_and_hears_of_the_end() -> None:
    inbox = an_inbox(takes_many=True)
    reading = asyncio.ensure_future(inbox.read())
    await a_turn()
    take(inbox, framed(b"a") + framed(b"b"))
    assert [await reading, await inbox.read()] == [b"a", b"b"]
    take(inbox, b"", is_last=True)
    assert await inbox.read() is None


async def test_who_reads_hears_of_a_failure_behind_what_came_before_it() -> None:
    inbox = an_inbox(takes_many=True)
    take(inbox, framed(b"a"))
    inbox.fail(ValueError("b"))
    assert await inbox.read() == b"a"
    with pytest.raises(ValueError, match="b"):
        await inbox.read()


async def test_others_have_a_turn_between_the_messages_of_who_sends_many() -> None:
    inbox = an_inbox(takes_many=True)
    sent = [b"%d" % number for number in range(3 * MOST_READY + 1)]
    take(inbox, b"".join(map(framed, sent)), is_last=True)
    read: list[bytes] = []
    seen: list[int] = []

    def look() -> None:
        seen.append(len(read))
        if len(read) < len(sent):
            asyncio.get_running_loop().call_soon(look)

    look()
    while (message := await inbox.read()) is not None:
        read.append(message)
    await a_turn()
    assert read == sent
    assert max(after - before for before, after in pairwise(seen)) == MOST_READY


async def test_what_comes_while_many_messages_wait_is_read_behind_them() -> None:
    inbox = an_inbox(takes_many=True)
    take(inbox, framed(b"a") * MOST_READY + framed(b"bc")[:6])
    take(inbox, b"c" + framed(b"d")[:2])
    assert not inbox.awaits_data
    take(inbox, framed(b"d")[2:])
    assert [await inbox.read() for _ in range(MOST_READY + 2)] == [*[b"a"] * MOST_READY, b"bc", b"d"]


def test_what_comes_while_many_messages_wait_does_not_keep_what_was_received_with_it() -> None:
    inbox = an_inbox(takes_many=True)
    take(inbox, framed(b"a") * (MOST_READY + 1))
    tracemalloc.start()
    try:
        for _ in range(100):
            inbox.take(memoryview(bytes(100_000))[:1], is_last=False)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"\2\0\0\0\0", "first byte is 2"), (b"\0\0\0\x10\0", "has 4096 bytes"), (b"\0", "in the middle of a message")],
)
async def test_what_is_no_message_is_heard_of_behind_however_many_came_before(data: bytes, why: str) -> None:
    inbox = an_inbox(takes_many=True)
    take(inbox, framed(b"a") * 2 * MOST_READY + data)
    take(inbox, b"", is_last=True)
    assert {await inbox.read() for _ in range(2 * MOST_READY)} == {b"a"}
    for _ in range(2):
        with pytest.raises((RpcStatus, ServingError), match=why):
            await inbox.read()


async def test_a_large_message_may_come_behind_as_many_as_are_ready_at_once() -> None:
    written: list[bytes] = []
    stream = Stream(1, Outflow(lambda pieces: written.extend(map(bytes, pieces))), lambda _: None)
    inbox = Inbox(stream, "identity", 1 << 30, takes_many=True)
    take(inbox, framed(b"a") * MOST_READY + PREFIX.pack(0, 1 << 24))
    stream.credit = 0
    for _ in range(MOST_READY):
        await inbox.read()
    assert written == []
    reading = asyncio.ensure_future(inbox.read())
    await a_turn()
    assert stream.credit == 1 << 24
    reading.cancel()


def test_where_there_should_be_one_message_no_more_than_two_are_taken() -> None:
    inbox = an_inbox(takes_many=False)
    with pytest.raises(RpcStatus, match="more messages than one"):
        take(inbox, framed(b"a") * 1000)
    assert repr(inbox).startswith("<Inbox: 2 messages wait")
