"""What comes in on a call, without the call: `test_call_flow` says how much may."""

from __future__ import annotations

import asyncio

import pytest
from tests.transport.http.connections import a_go_of_the_loop
from tests.transport.rpc.raw_peer import framed

from inferwire_server.transport.http2.outflow import Outflow
from inferwire_server.transport.http2.stream import Stream
from inferwire_server.transport.rpc.inbox import Inbox
from inferwire_server.transport.rpc.status import RpcStatus


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
    await a_go_of_the_loop()
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
