"""Calls that grpcio's client makes of our server, over real sockets."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs
from tests.transport.served_methods import guard_of, served_methods
from tests.waiting import until

from inferwire_proto.errors import CODE_METADATA, RETRY_AFTER_METADATA, Code
from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.errors import ServingError
from inferwire_server.service import AccessService
from inferwire_server.service.refusals import Refusals
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.guard import Guard
from inferwire_server.transport.rpc.messages import MessageReader
from inferwire_server.transport.rpc.methods import Method
from inferwire_server.transport.rpc.status import RpcStatus

PATH = "/tests.Calls/Call"
OTHER = "/tests.Calls/Other"
MIB = 1 << 20
LARGE = bytes(range(256)) * (30 * MIB // 256)
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
KEY = "the-key-of-the-tests"
SHOWN = (("authorization", f"Bearer {KEY}"),)


@asynccontextmanager
async def called(
    methods: Mapping[str, Method] | Method, guard: Guard | None = None, **options: Any
) -> AsyncGenerator[grpc.aio.Channel, None]:
    """Serve methods, or one at the path of these tests, and give a channel to them."""
    if isinstance(methods, Method):
        methods = {PATH: methods}
    async with (
        served_methods(methods, guard, most_message_bytes=len(LARGE)) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=UNLIMITED, **options) as channel,
    ):
        yield channel


def unary(channel: grpc.aio.Channel, message: bytes = b"", **options: Any) -> Any:
    call: Any = channel.unary_unary(PATH)
    return call(message, timeout=options.pop("timeout", 20), **options)


def stream(channel: grpc.aio.Channel, messages: Any = None, **options: Any) -> Any:
    call: Any = channel.stream_stream(PATH)
    return call(messages, timeout=options.pop("timeout", 20), **options)


async def failure(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value


async def echo(message: bytes, _: Context) -> bytes:
    return message


async def echo_each(_: bytes, context: Context) -> None:
    while (message := await context.read()) is not None:
        await context.write(message)


ECHO = Method(echo)
ECHO_EACH = Method(echo_each, takes_stream=True)


class Held:
    """A call that runs until it is let go or cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, message: bytes, context: Context) -> bytes:
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return message


@pytest.mark.parametrize("size", [0, 1, 16_384, 65_535, 65_536, MIB, MIB + 1])
async def test_a_message_is_answered_with_a_message(size: int) -> None:
    message = bytes(range(256)) * (size // 256) + bytes(size % 256)
    async with called(ECHO) as channel:
        call = unary(channel, message)
        assert await call == message
        assert await call.code() is grpc.StatusCode.OK
        assert await call.details() == ""
        assert not await call.trailing_metadata()


async def test_messages_go_both_ways_at_once() -> None:
    async with called(ECHO_EACH) as channel:
        call = stream(channel)
        for number in range(100):
            message = b"%d" % number * number
            await call.write(message)
            assert await call.read() == message
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_many_messages_are_answered_with_one() -> None:
    async def joined(_: bytes, context: Context) -> bytes:
        parts: list[bytes] = []
        while (message := await context.read()) is not None:
            parts.append(message)
        return b"|".join(parts)

    async def messages() -> AsyncIterator[bytes]:
        for number in range(1000):
            yield b"%d" % number

    async with called(Method(joined, takes_stream=True)) as channel:
        call: Any = channel.stream_unary(PATH)
        assert await call(messages(), timeout=20) == b"|".join(b"%d" % number for number in range(1000))
        assert await call(iter(()), timeout=20) == b""


async def test_one_message_is_answered_with_many() -> None:
    async def counting(message: bytes, context: Context) -> None:
        for number in range(int(message)):
            await context.write(b"%d" % number)

    async with called(Method(counting)) as channel:
        call: Any = channel.unary_stream(PATH)
        for count in (0, 1, 1000):
            found = [message async for message in call(b"%d" % count, timeout=20)]
            assert found == [b"%d" % number for number in range(count)]


async def test_many_calls_run_on_a_connection_at_once() -> None:
    gathered = asyncio.Event()
    running = 0

    async def together(message: bytes, _: Context) -> bytes:
        nonlocal running
        running += 1
        if running == 500:
            gathered.set()
        await gathered.wait()
        return message

    async with called(Method(together)) as channel:
        answers = await asyncio.gather(*(unary(channel, b"%d" % number) for number in range(500)))
    assert answers == [b"%d" % number for number in range(500)]


async def test_large_messages_of_many_calls_go_both_ways_at_once() -> None:
    async with called(ECHO) as channel:
        messages = [bytes([number]) * (3 * MIB + number) for number in range(8)]
        assert await asyncio.gather(*(unary(channel, message) for message in messages)) == messages


async def test_a_message_longer_than_every_window_goes_both_ways() -> None:
    async with called({PATH: ECHO}) as channel:
        assert await unary(channel, LARGE) == LARGE


async def test_messages_longer_than_every_window_go_both_ways_in_a_stream() -> None:
    async with called(ECHO_EACH) as channel:
        call = stream(channel, iter([LARGE, b"", LARGE[1:]]))
        assert [message async for message in call] == [LARGE, b"", LARGE[1:]]


async def test_a_message_that_is_too_large_is_refused_while_it_is_sent() -> None:
    guard = guard_of()
    async with called(ECHO, guard) as channel:
        error = await failure(unary(channel, LARGE + b"1"))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert dict(iter(error.trailing_metadata()))[CODE_METADATA] == "TOO_LARGE"
        assert await unary(channel, b"hello") == b"hello"
    assert guard.refusals.counts == {("grpc", "TOO_LARGE"): 1}


@pytest.mark.parametrize("method", [ECHO, ECHO_EACH], ids=["one", "many"])
async def test_a_message_that_there_is_no_memory_for_ends_its_call_alone(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = MessageReader.take

    def take_if_small(reader: MessageReader, data: memoryview) -> Iterator[bytes]:
        for message in take(reader, data):
            if len(message) > MIB:
                raise MemoryError
            yield message

    monkeypatch.setattr(MessageReader, "take", take_if_small)
    guard = guard_of()
    async with called({PATH: method, OTHER: ECHO_EACH}, guard) as channel:
        open_still: Any = channel.stream_stream(OTHER)(timeout=20)
        await open_still.write(b"be")
        assert await open_still.read() == b"be"
        with capture_logs() as logs:
            error = await failure(stream(channel, iter([bytes(2 * MIB)])).read())
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert [(entry["event"], entry["path"]) for entry in logs] == [("out of memory in a call", PATH)]
        await open_still.write(b"fore")
        assert await open_still.read() == b"fore"
    assert guard.refusals.counts == {("grpc", "TOO_LARGE"): 1}


@pytest.mark.parametrize("size", [10, 20 * MIB], ids=["little", "much"])
async def test_an_answer_may_come_while_the_client_still_sends(size: int) -> None:
    async def hasty(_: bytes, context: Context) -> bytes:
        await context.read()
        return b"enough"

    async def messages() -> AsyncIterator[bytes]:
        yield b"first"
        yield bytes(size)
        await asyncio.Event().wait()

    async with called(Method(hasty, takes_stream=True)) as channel:
        for _ in range(3):
            call: Any = channel.stream_unary(PATH)
            assert await call(messages(), timeout=20) == b"enough"


@pytest.mark.parametrize("size", [10, 20 * MIB], ids=["little", "much"])
async def test_a_failure_may_come_while_the_client_still_sends(size: int) -> None:
    async def hasty(_: bytes, context: Context) -> bytes:
        await context.read()
        raise ServingError(Code.QUEUE_FULL, "enough")

    async with called({PATH: Method(hasty, takes_stream=True), "/": ECHO}) as channel:
        for _ in range(3):
            call: Any = channel.stream_unary(PATH)
            error = await failure(call(iter([bytes(size), bytes(size)]), timeout=20))
            assert (error.code(), error.details()) == (grpc.StatusCode[Code.QUEUE_FULL.grpc], "enough")


async def test_a_call_of_what_is_not_offered_is_told_so_however_much_it_sends() -> None:
    async with called({}) as channel:
        many: Any = channel.stream_unary(PATH)
        for call in (unary(channel), unary(channel, bytes(20 * MIB)), many(iter([b"1", b"2"]), timeout=20)):
            error = await failure(call)
            assert (error.code(), error.details()) == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")


@pytest.mark.parametrize("method", ["PredictionService/Predict", "ModelService/GetModelStatus"])
async def test_who_calls_tensorflow_serving_is_told_what_is_served(method: str) -> None:
    async with called(ECHO) as channel:
        call: Any = channel.unary_unary(f"/tensorflow.serving.{method}")
        error = await failure(call(b"", timeout=20))
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        assert str(error.details()).startswith(
            "TensorFlow Serving's API is not offered here: the Open Inference Protoc"
        )


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_messages_are_read(compression: grpc.Compression) -> None:
    async with called(ECHO, compression=compression) as channel:
        assert await unary(channel, LARGE) == LARGE
        assert await unary(channel, b"") == b""
    async with called(ECHO_EACH) as channel:
        call = stream(channel, iter([b"a" * 1000, b"b", LARGE]), compression=compression)
        assert [message async for message in call] == [b"a" * 1000, b"b", LARGE]


async def test_metadata_of_text_comes_as_it_was_given_and_none_of_bytes() -> None:
    async def telling(_: bytes, context: Context) -> bytes:
        return repr([entry for entry in context.metadata if entry[0].startswith("x")]).encode()

    # Its client puts those of one name one behind the other.
    texts, content = [("x", "1"), ("x", "2"), ("x-other", "a, b")], [("x-bin", b"\0\xff"), ("x-bin", b"")]
    async with called(Method(telling)) as channel:
        assert (await unary(channel, metadata=(*content, *texts))).decode() == repr(texts)


async def test_a_call_knows_where_its_caller_is() -> None:
    async def telling(_: bytes, context: Context) -> bytes:
        return context.peer.encode()

    async with called(Method(telling)) as channel:
        assert (await unary(channel)).decode().startswith("ipv4:127.0.0.1:")


@pytest.mark.parametrize(
    "details", ["größer, 大きい, 😀", "100 % of\nall lines\r\n", "%41%", " blanks ", "\0\x7f", "", "x" * 5000]
)
async def test_a_sentence_arrives_as_it_was_said(details: str) -> None:
    async def failing(message: bytes, context: Context) -> None:
        if message:
            await context.write(message)
        raise RpcStatus(grpc.StatusCode.DATA_LOSS, details, (("x", "1"), ("y", "2")))

    async with called(Method(failing)) as channel:
        for message in (b"", b"first"):
            call: Any = channel.unary_stream(PATH)(message, timeout=20)
            if message:
                assert await call.read() == message
            assert await call.code() is grpc.StatusCode.DATA_LOSS
            assert await call.details() == details
            assert tuple(await call.trailing_metadata()) == (("x", "1"), ("y", "2"))


async def test_what_a_call_raises_is_told_with_its_code_and_counted() -> None:
    async def failing(_: bytes, context: Context) -> bytes:
        raise ServingError(Code.MODEL_NOT_FOUND, "no such model", retry_after_s=0.5)

    guard = guard_of()
    async with called(Method(failing), guard) as channel:
        error = await failure(unary(channel))
    assert (error.code(), error.details()) == (grpc.StatusCode[Code.MODEL_NOT_FOUND.grpc], "no such model")
    assert dict(iter(error.trailing_metadata())) == {CODE_METADATA: "MODEL_NOT_FOUND", RETRY_AFTER_METADATA: "0.5"}
    assert guard.refusals.counts == {("grpc", "MODEL_NOT_FOUND"): 1}


async def test_a_bug_ends_its_call_alone() -> None:
    async def broken(message: bytes, context: Context) -> bytes:
        return bytes([1 // len(message)])

    with capture_logs() as logged:
        async with called(Method(broken)) as channel:
            assert (await failure(unary(channel))).code() is grpc.StatusCode.INTERNAL
            assert await unary(channel, b"1") == b"\1"
    (event,) = logged
    assert isinstance(event["exc_info"], ZeroDivisionError)


async def test_a_call_that_runs_too_long_is_cancelled() -> None:
    held = Held()
    async with called(Method(held)) as channel:
        await channel.channel_ready()
        error = await failure(unary(channel, timeout=3))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert held.begun.is_set()
        await held.cancelled.wait()


async def test_a_stream_that_is_open_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def endless(_: bytes, context: Context) -> None:
        try:
            while True:
                await context.write(await context.read() or b"")
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with called(Method(endless, takes_stream=True)) as channel:
        await channel.channel_ready()
        call = stream(channel, timeout=3)
        await call.write(b"1")
        assert await call.read() == b"1"
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await cancelled.wait()


async def test_a_call_whose_client_cancels_is_cancelled() -> None:
    held, drain = Held(), Drain()
    async with called(Method(held), guard_of(drain)) as channel:
        call = unary(channel)
        # A call of grpcio's begins once something waits for it.
        waiting = asyncio.ensure_future(call.code())
        await held.begun.wait()
        assert drain.is_busy
        call.cancel()
        await held.cancelled.wait()
        await until(lambda: not drain.is_busy)
        assert await waiting is grpc.StatusCode.CANCELLED


async def test_calls_are_cancelled_with_their_connection() -> None:
    tasks = asyncio.all_tasks()
    held, drain = Held(), Drain()
    async with served_methods({PATH: Method(held), "/tests.Calls/Each": ECHO_EACH}, guard_of(drain)) as port:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            calls: list[Any] = [unary(channel, b"1"), channel.stream_stream("/tests.Calls/Each")(timeout=20)]
            waiting = [asyncio.ensure_future(call.code()) for call in calls]
            await held.begun.wait()
            await calls[1].write(b"1")
            assert await calls[1].read() == b"1"
        await held.cancelled.wait()
        await until(lambda: not drain.is_busy)
        await asyncio.wait(waiting)
    await until(lambda: {task for task in asyncio.all_tasks() if "RpcCall" in repr(task)} <= tasks)


async def test_calls_that_run_are_cancelled_when_the_server_ends() -> None:
    held = Held()
    async with called(Method(held)) as channel:
        waiting = asyncio.ensure_future(unary(channel).code())
        await held.begun.wait()
    assert held.cancelled.is_set()
    assert await waiting in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


async def test_calls_are_sent_away_once_the_server_is_closed() -> None:
    drain = Drain()
    async with called(ECHO, guard_of(drain)) as channel:
        assert await unary(channel, b"1") == b"1"
        drain.close()
        for call in (unary(channel, b"1"), channel.stream_unary(PATH)(iter([b"1"]), timeout=20)):
            error = await failure(call)
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            assert dict(iter(error.trailing_metadata()))[CODE_METADATA] == "SHUTTING_DOWN"


async def test_a_call_that_does_not_read_stops_its_client() -> None:
    may_read = asyncio.Event()
    read = 0

    async def late(message: bytes | None, context: Context) -> bytes:
        nonlocal read
        await may_read.wait()
        while (message := await context.read()) is not None:
            read += len(message)
        return b"%d" % read

    sent = 0

    async def messages() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(200):
            yield bytes(256 * 1024)
            sent += 1

    tracemalloc.start()
    try:
        async with called({PATH: Method(late, takes_stream=True), "/tests.Calls/Echo": ECHO}) as channel:
            call: Any = channel.stream_unary(PATH)(messages(), timeout=20)
            await until(lambda: sent >= 4)
            # Other calls go past it.
            beside: Any = channel.unary_unary("/tests.Calls/Echo")
            for _ in range(200):
                await beside(b"1", timeout=20)
            assert sent < 40
            assert tracemalloc.get_traced_memory()[0] < 16 * MIB
            may_read.set()
            assert await call == b"%d" % (200 * 256 * 1024)
    finally:
        tracemalloc.stop()


async def test_a_client_that_does_not_read_stops_the_call() -> None:
    written = 0

    async def writing(message: bytes, context: Context) -> None:
        nonlocal written
        for _ in range(400):
            await context.write(bytes(256 * 1024))
            written += 1

    async with called({PATH: Method(writing), "/tests.Calls/Echo": ECHO}) as channel:
        call: Any = channel.unary_stream(PATH)(b"", timeout=25)
        assert len(await call.read()) == 256 * 1024
        # Other calls go past it.
        beside: Any = channel.unary_unary("/tests.Calls/Echo")
        for _ in range(50):
            await beside(b"1", timeout=20)
        assert written < 200
        for _ in range(399):
            assert len(await call.read()) == 256 * 1024
        assert await call.read() is grpc.aio.EOF


def guarded() -> Guard:
    return Guard(Drain(), Refusals(), AccessService(ApiKeys.parse(KEY)))


async def test_a_caller_without_a_key_is_told_so_however_much_it_sends() -> None:
    async with called(ECHO, guarded()) as channel:
        for size in (0, 20 * MIB):
            error = await failure(unary(channel, bytes(size)))
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
            assert dict(iter(error.trailing_metadata()))[CODE_METADATA] == "UNAUTHENTICATED"
        assert await unary(channel, b"1", metadata=SHOWN) == b"1"


async def test_a_probe_without_a_key_is_answered_as_if_its_message_were_empty() -> None:
    async with called(Method(echo, is_keyless=True), guarded()) as channel:
        for size in (1, 20 * MIB):
            assert await unary(channel, bytes(size)) == b""
        assert await unary(channel, b"1", metadata=SHOWN) == b"1"
