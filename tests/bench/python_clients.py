"""Load from this process: prepared bytes over raw gRPC and HTTP, each answer checked."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from http.client import HTTPConnection
from time import perf_counter
from typing import Any

import grpc
import grpc.aio
from tests.bench.load import Answered, KnownAnswers
from tests.bench.requests import Request

Check = Callable[[bytes], None]
Call = Callable[[], Awaitable[bytes]]

LARGEST = 256 * 1024 * 1024
OPTIONS = (("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST))


def grpc_unary(address: str, request: Request, answers: KnownAnswers, in_flight: int) -> Callable[[float], Answered]:
    """Unary calls on one connection."""

    async def run(seconds: float) -> Answered:
        async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
            method: Any = channel.unary_unary(request.path)

            async def call() -> bytes:
                return await method(request.body)

            return await _closed_loop([call] * in_flight, seconds, answers.check)

    return lambda seconds: _run(run(seconds))


def grpc_stream(address: str, request: Request, answers: KnownAnswers, in_flight: int) -> Callable[[float], Answered]:
    """Messages on one stream, which are answered in their order."""

    async def run(seconds: float) -> Answered:
        async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
            stream: Any = channel.stream_stream(request.path)()
            started: deque[float] = deque()
            latencies: list[float] = []
            start = now = perf_counter()

            async def send() -> None:
                started.append(perf_counter())
                await stream.write(request.body)

            for _ in range(in_flight):
                await send()
            while started:
                answer = await stream.read()
                now = perf_counter()
                latencies.append(now - started.popleft())
                answers.check(answer)
                if now - start < seconds:
                    await send()
            await stream.done_writing()
            return Answered.of(latencies, now - start)

    return lambda seconds: _run(run(seconds))


def http(address: str, request: Request, answers: KnownAnswers, in_flight: int) -> Callable[[float], Answered]:
    """HTTP posts, each on a connection that is kept."""
    host, _, port = address.rpartition(":")
    post = posted(address, request)

    async def run(seconds: float) -> Answered:
        connections = [await asyncio.open_connection(host, port) for _ in range(in_flight)]
        calls = [_http_call(reader, writer, post) for reader, writer in connections]
        try:
            return await _closed_loop(calls, seconds, answers.check)
        finally:
            for _, writer in connections:
                writer.close()

    return lambda seconds: _run(run(seconds))


def posted(address: str, request: Request) -> bytes:
    """Write a request as HTTP/1.1 has it."""
    headers = {"Host": address, **request.headers, "Content-Length": str(len(request.body))}
    lines = [f"POST {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + request.body


def _http_call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, post: bytes) -> Call:
    async def call() -> bytes:
        writer.write(post)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        if b"content-length" in headers:
            body = await reader.readexactly(int(headers[b"content-length"]))
        else:
            body = await _chunks(reader)
        if not head.startswith(b"HTTP/1.1 200"):
            raise AssertionError(f"the server answered {head!r} {body[:1000]!r}")
        return body

    return call


def one_grpc_answer(address: str, request: Request) -> bytes:
    """Make one unary call, on a connection of its own."""
    with grpc.insecure_channel(address, options=(*OPTIONS, ("grpc.use_local_subchannel_pool", 1))) as channel:
        method: Any = channel.unary_unary(request.path)
        return method(request.body, timeout=60)


def one_http_answer(address: str, request: Request) -> bytes:
    """Post once."""
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("POST", request.path, request.body, request.headers)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise AssertionError(f"{address}{request.path} answered {answer.status} {body[:1000]!r}")
    return body


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return bytes(body)


async def _closed_loop(calls: Sequence[Call], seconds: float, check: Check) -> Answered:
    """Keep every call busy: the next one starts when the last has answered. Each is made once at least."""
    latencies: list[float] = []
    start = perf_counter()

    async def keep_busy(call: Call) -> None:
        now = perf_counter()
        while True:
            answer = await call()
            done = perf_counter()
            latencies.append(done - now)
            check(answer)
            now = done
            if now - start >= seconds:
                break

    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(keep_busy(call))
    return Answered.of(latencies, perf_counter() - start)


def _run(load: Coroutine[Any, Any, Answered]) -> Answered:
    if sys.platform == "win32":
        return asyncio.run(load)
    import uvloop

    return uvloop.run(load)
