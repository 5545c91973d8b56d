"""Calls that no client of gRPC's makes, and what they are told."""

from __future__ import annotations

import asyncio
import gzip
import re
from functools import partial

import pytest
from tests.transport.rpc.raw_peer import PATH, RawPeer, data_frame, framed
from tests.transport.served_methods import guard_of

from inferwire_proto.errors import CODE_METADATA
from inferwire_server.errors import ServingError
from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.header_blocks import MOST_HEADER_BYTES, UNPACKED_TIMES, write_block
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import Method

INTERNAL, UNIMPLEMENTED, TOO_LARGE, INVALID_ARGUMENT = 13, 12, 8, 3
NO_ERROR, PROTOCOL_ERROR = 0, 1
LIMIT = 1 << 20


async def echo(message: bytes, _: Context) -> bytes:
    return message


async def read_all(_: bytes, context: Context) -> bytes:
    read = b""
    while (message := await context.read()) is not None:
        read += message
    return read


ECHO = Method(echo)
READ_ALL = Method(read_all, takes_stream=True)


async def test_an_answer_is_headers_a_message_and_a_status() -> None:
    told = await RawPeer(ECHO).answered(data=framed(b"hello"))
    assert told.headers == {
        b":status": b"200",
        b"content-type": b"application/grpc",
        b"grpc-accept-encoding": b"identity,gzip,deflate",
    }
    assert told.data == framed(b"hello")
    assert told.trailers == {b"grpc-status": b"0"}
    assert told.reset is None


async def test_a_failed_call_is_told_in_one_block_of_headers() -> None:
    async def fail(_: bytes, context: Context) -> bytes:
        raise ValueError

    told = await RawPeer(Method(fail)).answered(data=framed(b""))
    assert told.headers[b":status"] == b"200"
    assert told.headers[b"content-type"] == b"application/grpc"
    assert told.headers[b"grpc-status"] == b"13"
    assert (told.data, told.trailers) == (b"", {})


@pytest.mark.parametrize("data", [None, b""], ids=["headers alone", "data without bytes"])
async def test_a_call_without_its_message_is_refused(data: bytes | None) -> None:
    peer = RawPeer(ECHO)
    told = await peer.end_of(peer.begin(data=data, end=True))
    assert (told.status, told.details) == (INTERNAL, "the call ended before its message, expected one")
    assert peer.running == "<Dispatcher: 1 methods, 0 calls>"


async def test_a_call_that_ends_with_trailers_has_ended() -> None:
    peer = RawPeer(ECHO)
    number = peer.begin(data=framed(b"hello"))
    assert not peer.told[number].headers
    peer.send_trailers(number)
    told = await peer.end_of(number)
    assert (told.data, told.status) == (framed(b"hello"), 0)


@pytest.mark.parametrize("is_apart", [False, True], ids=["together", "apart"])
async def test_a_call_with_two_messages_is_refused_before_it_ends(*, is_apart: bool) -> None:
    peer = RawPeer(ECHO)
    if is_apart:
        number = peer.begin(data=framed(b"1"))
        peer.send(number, framed(b"2"))
    else:
        number = peer.begin(data=framed(b"1") + framed(b"2"))
    told = peer.told[number]
    assert (told.status, told.details) == (INTERNAL, "the call has more messages than one, expected one")
    assert told.has_ended
    assert peer.running == "<Dispatcher: 1 methods, 0 calls>"


async def test_a_call_whose_second_message_is_behind_a_large_one_is_refused() -> None:
    peer = RawPeer(ECHO, most_message_bytes=4 * LIMIT)
    number = peer.begin()
    peer.send_what_fits(number, framed(bytes(3 * LIMIT)) + framed(b"2"))
    assert peer.told[number].has_ended
    assert peer.told[number].details == "the call has more messages than one, expected one"


@pytest.mark.parametrize("data", [framed(b"hello")[:3], framed(b"hello")[:5], framed(b"hello")[:7]])
@pytest.mark.parametrize("method", [ECHO, READ_ALL], ids=["one", "many"])
async def test_a_call_that_ends_in_the_middle_of_a_message_is_refused(data: bytes, method: Method) -> None:
    peer = RawPeer(method)
    told = await peer.answered(data=data)
    assert (told.status, told.details) == (INTERNAL, "the call ended in the middle of a message")
    assert peer.running == "<Dispatcher: 1 methods, 0 calls>"


async def test_a_message_that_is_too_large_is_refused_for_its_prefix() -> None:
    guard = guard_of()
    peer = RawPeer(ECHO, guard)
    number = peer.begin(data=framed(bytes(LIMIT + 1))[:5])
    told = peer.told[number]
    assert told.status == TOO_LARGE
    assert told.headers[CODE_METADATA.encode()] == b"TOO_LARGE"
    assert told.details.startswith(f"the message has {LIMIT + 1} bytes, at most {LIMIT} fit")
    assert (told.has_ended, told.room) == (True, 0)
    assert guard.refusals.counts == {("grpc", "TOO_LARGE"): 1}
    assert peer.running == "<Dispatcher: 1 methods, 0 calls>"


async def test_what_a_client_still_sends_of_a_refused_message_is_passed_over() -> None:
    peer = RawPeer(ECHO)
    number = peer.begin(data=framed(bytes(LIMIT + 1))[:5])
    for _ in range(4):
        peer.say(data_frame(number, bytes(LIMIT // 4)))
    assert peer.told[number].reset in (None, NO_ERROR)
    assert (await peer.answered(data=framed(b"hello"))).data == framed(b"hello")


async def test_where_many_messages_are_read_one_that_is_refused_is_raised() -> None:
    peer = RawPeer(READ_ALL)
    number = peer.begin(data=framed(b"hello"))
    peer.send(number, framed(bytes(LIMIT + 1))[:5])
    told = await peer.end_of(number)
    assert told.status == TOO_LARGE
    assert told.headers[CODE_METADATA.encode()] == b"TOO_LARGE"


async def test_nothing_is_a_message_behind_one_that_was_refused() -> None:
    read: list[bytes | None] = []
    may_read = asyncio.Event()

    async def late(_: bytes, context: Context) -> None:
        await may_read.wait()
        while (message := await context.read()) is not None:
            read.append(message)

    peer = RawPeer(Method(late, takes_stream=True))
    number = peer.begin(data=framed(bytes(LIMIT + 1))[:5])
    peer.send(number, framed(b"no message") + bytes(100), end=True)
    may_read.set()
    told = await peer.end_of(number)
    assert read == []
    assert told.status == TOO_LARGE


@pytest.mark.parametrize("is_apart", [False, True], ids=["together", "apart"])
async def test_what_came_before_a_message_that_is_refused_is_read(*, is_apart: bool) -> None:
    read: list[bytes] = []

    async def noting(_: bytes, context: Context) -> None:
        while (message := await context.read()) is not None:
            read.append(message)

    peer = RawPeer(Method(noting, takes_stream=True))
    refused = framed(bytes(LIMIT + 1))[:5]
    if is_apart:
        number = peer.begin(data=framed(b"hello"))
        peer.send(number, refused)
    else:
        number = peer.begin(data=framed(b"hello") + refused)
    assert (await peer.end_of(number)).status == TOO_LARGE
    assert read == [b"hello"]


async def test_a_refused_message_is_raised_as_often_as_is_read() -> None:
    raised: list[Exception] = []

    async def persistent(message: bytes, context: Context) -> bytes:
        for _ in range(2):
            try:
                await context.read()
            except ServingError as error:
                raised.append(error)
        return b"done"

    peer = RawPeer(Method(persistent, takes_stream=True))
    number = peer.begin(data=framed(bytes(LIMIT + 1))[:5])
    told = await peer.end_of(number)
    assert len(raised) == 2
    assert (told.data, told.status) == (framed(b"done"), 0)


async def test_a_compressed_message_is_read_where_the_call_says_how() -> None:
    peer = RawPeer(ECHO)
    packed = framed(gzip.compress(b"hello"), 1)
    assert (await peer.answered({b"grpc-encoding": b"gzip"}, packed)).data == framed(b"hello")
    told = await peer.answered(data=packed)
    assert told.status == INTERNAL
    assert told.details == "a message is compressed, and the call's grpc-encoding is identity"


async def test_a_call_that_is_compressed_as_nobody_knows_is_told_what_is_known() -> None:
    told = await RawPeer(ECHO).answered({b"grpc-encoding": b"snappy"}, framed(b"hello"))
    assert told.status == UNIMPLEMENTED
    assert told.details == "the call's grpc-encoding is 'snappy', expected one of identity, gzip, deflate"
    assert told.headers[b"grpc-accept-encoding"] == b"identity,gzip,deflate"


async def test_what_a_call_is_told_of_its_long_headers_is_no_longer_than_a_frame_may_be() -> None:
    told = await RawPeer(ECHO).answered({b"grpc-encoding": b"a" * 60_000}, framed(b"hello"))
    assert told.status == UNIMPLEMENTED
    assert told.details.startswith("the call's grpc-encoding is 'aaa")
    assert told.details.endswith("a...")


@pytest.mark.parametrize("times", [1, UNPACKED_TIMES - 1])
async def test_a_call_whose_headers_are_too_long_is_told_so_and_no_other_is(times: int) -> None:
    peer = RawPeer(ECHO)
    # To write so much by Huffman's code would take seconds.
    peer._h2.encoder.encode = partial(peer._h2.encoder.encode, huffman=False)
    other = peer.begin()
    told = await peer.answered({b"x-long": b"a" * (MOST_HEADER_BYTES * times)}, framed(b"hello"))
    assert told.status == TOO_LARGE
    size, most = map(int, re.findall(r"\d{3,}", told.details))
    assert told.details == (
        f"the call's headers have {size} bytes, 32 of each beside its name and value, expected at most {most}"
    )
    assert 0 < size - MOST_HEADER_BYTES * times < 1000
    assert most == MOST_HEADER_BYTES
    peer.send(other, framed(b"hello"), end=True)
    assert (await peer.end_of(other)).data == framed(b"hello")


async def test_headers_as_long_as_they_may_be_are_taken() -> None:
    peer = RawPeer(ECHO)
    told = await peer.answered({b"x-long": b"a"}, framed(b"hello"))
    assert told.status == 0
    told = await peer.answered({b"x-long": b"a" * (MOST_HEADER_BYTES - 500)}, framed(b"hello"))
    assert told.status == 0


async def test_a_call_of_what_is_not_offered_is_told_so_with_its_data_or_without() -> None:
    peer = RawPeer(ECHO)
    for data in (framed(b"hello"), None):
        number = peer.begin({b":path": PATH.encode() + b"s"}, data)
        told = await peer.end_of(number)
        assert (told.status, told.details) == (UNIMPLEMENTED, "Method not found!")
        assert told.has_ended


async def test_a_call_of_what_is_not_offered_may_be_given_up_before_it_is_told() -> None:
    peer = RawPeer(ECHO)
    number = peer.begin({b":path": b"/nothing"})
    peer.reset(number)
    assert not peer.connection.streams.open
    assert (await peer.answered(data=framed(b"hello"))).status == 0


@pytest.mark.parametrize(
    "headers",
    [{b":method": b"GET"}, {b"content-type": b"application/json"}, {b"content-type": b"application/grpc-web"}],
    ids=["asked for", "json", "of browsers"],
)
async def test_what_is_no_call_is_refused_as_http_does(headers: dict[bytes, bytes]) -> None:
    peer = RawPeer(ECHO)
    told = peer.told[peer.begin(headers, end=True)]
    assert told.headers == {b":status": b"415"}
    assert told.has_ended


async def test_what_is_no_request_is_given_up() -> None:
    peer = RawPeer(ECHO)
    told = peer.told[peer.begin({b"X-Upper": b"1"}, end=True)]
    assert told.reset == PROTOCOL_ERROR
    assert not peer.connection.streams.open


@pytest.mark.parametrize("method", [ECHO, READ_ALL])
@pytest.mark.parametrize("size", [0, 9, 11, 1 << 40])
async def test_a_call_of_more_or_less_than_it_has_announced_is_given_up(method: Method, size: int) -> None:
    peer = RawPeer(method)
    told = await peer.answered({b"content-length": b"%d" % size}, framed(b"hello"))
    assert (told.reset, told.data) == (PROTOCOL_ERROR, b"")
    assert peer.running == "<Dispatcher: 1 methods, 0 calls>"
    told = await peer.answered({b"content-length": b"10"}, framed(b"hello"))
    assert (told.data, told.status) == (framed(b"hello"), 0)


@pytest.mark.parametrize("field", [(b":path", PATH.encode()), (b"X-Upper", b"1"), (b"x", b"a\nb")])
async def test_a_call_that_ends_with_what_are_no_trailers_is_given_up(field: tuple[bytes, bytes]) -> None:
    peer = RawPeer(ECHO)
    number = peer.begin(data=framed(b"hello"))
    peer.say(frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, number, write_block([field])))
    told = await peer.end_of(number)
    assert (told.reset, told.data) == (PROTOCOL_ERROR, b"")
    assert (await peer.answered(data=framed(b"hello"))).status == 0


@pytest.mark.parametrize("data", [framed(b"hello"), None])
async def test_a_call_whose_time_cannot_be_read_is_told_so(data: bytes | None) -> None:
    peer = RawPeer(ECHO)
    told = await peer.end_of(peer.begin({b"grpc-timeout": b"soon"}, data, end=data is not None))
    assert (told.headers[b":status"], told.status, told.reset) == (b"200", INVALID_ARGUMENT, None)
    assert told.headers[CODE_METADATA.encode()] == b"INVALID_INPUT"
    assert told.details == (
        "the call's grpc-timeout is 'soon', expected a number of up to eight digits and its unit, H, M, S, m, u or n"
    )


async def test_a_call_sees_what_its_caller_tells_and_where_it_is() -> None:
    async def telling(_: bytes, context: Context) -> bytes:
        return f"{dict(context.metadata)} {context.peer}".encode()

    told = await RawPeer(Method(telling)).answered({b"x-bin": b"AAE", b"y": b"1"}, framed(b""))
    assert told.data[5:].decode() == f"{ {'y': '1'} } ipv4:127.0.0.1:1"


async def test_the_answer_to_many_messages_may_be_nothing() -> None:
    async def nothing(_: bytes, context: Context) -> None:
        return None

    told = await RawPeer(Method(nothing, takes_stream=True)).answered(data=framed(b"hello"))
    assert (told.headers[b":status"], told.data, told.trailers) == (b"200", b"", {b"grpc-status": b"0"})


async def test_the_last_message_may_come_behind_those_that_were_written() -> None:
    async def counting(_: bytes, context: Context) -> bytes:
        for number in range(3):
            await context.write(b"%d" % number)
        return b"end"

    told = await RawPeer(Method(counting)).answered(data=framed(b""))
    assert told.data == framed(b"0") + framed(b"1") + framed(b"2") + framed(b"end")
    assert told.trailers == {b"grpc-status": b"0"}


async def test_a_call_may_fail_behind_messages() -> None:
    async def failing(_: bytes, context: Context) -> None:
        await context.write(b"1")
        await context.read()

    peer = RawPeer(Method(failing, takes_stream=True))
    told = await peer.answered(data=framed(b"", 2))
    assert (told.data, told.status) == (framed(b"1"), INTERNAL)
    assert told.details == "a message's first byte is 2, expected 0 or 1"
    assert b"grpc-status" not in told.headers
