"""Connections that go from one worker to another, on real sockets."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio
from structlog.testing import capture_logs
from tests.waiting import LIMIT_S, until

from inferwire_proto import frames
from inferwire_proto.errors import Code
from inferwire_proto.frames import HELLO_BYTES, OPENING_BYTES, SCRATCH_BYTES, Kind
from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError
from inferwire_server.transport.relay.connections import give_to, taking_connections


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    """The worker that has connections for another, which is number 1."""
    return Crew(0, 2, tmp_path, "token")


class Answering(asyncio.Protocol):
    """Says what had come, and what comes."""

    def __init__(self, transport: asyncio.Transport, came: bytes) -> None:
        self._transport = transport
        transport.write(came)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data.upper())


def answer(transport: asyncio.Transport, came: bytes) -> None:
    transport.set_protocol(Answering(transport, came))


class Giving(asyncio.Protocol):
    """Gives every connection to worker 1, once something has come."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        give = give_to(self._crew, "epoch-1")
        assert give is not None
        try:
            give(self._transport, data)
        except ServingError as error:
            self._transport.write(f"{error.code.name}: {error.message}".encode())
            self._transport.close()
        else:
            self._transport.abort()


@pytest_asyncio.fixture
async def port(crew: Crew) -> AsyncIterator[int]:
    async with await asyncio.get_running_loop().create_server(lambda: Giving(crew), "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest_asyncio.fixture
async def other(crew: Crew) -> AsyncIterator[Crew]:
    """The other worker, there."""
    other = replace(crew, index=1)
    async with taking_connections(other, answer):
        yield other


async def said_by(port: int, *words: bytes) -> list[bytes]:
    """Say words on a connection, and hear of each what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard: list[bytes] = []
    async with asyncio.timeout(LIMIT_S):
        for word in words:
            writer.write(word)
            heard.append(await reader.readexactly(len(word)))
    writer.close()
    return heard


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.usefixtures("other")
async def test_a_connection_goes_on_with_the_other_worker(port: int) -> None:
    assert await said_by(port, b"hello", b"and more", b"still") == [b"hello", b"AND MORE", b"STILL"]


@pytest.mark.usefixtures("other")
async def test_many_may_go_at_once_and_none_leaves_a_file_behind(port: int) -> None:
    await said_by(port, b"hello")
    before = open_files()
    heard = await asyncio.gather(*(said_by(port, b"hello", b"%d" % number) for number in range(200)))
    assert heard == [[b"hello", b"%d" % number] for number in range(200)]
    await until(lambda: open_files() <= before)


async def test_one_that_means_this_worker_or_nobody_stays(crew: Crew) -> None:
    assert [give_to(crew, epoch) for epoch in ("epoch-0", "epoch", "epoch-2", "")] == [None] * 4


async def test_where_the_other_worker_has_gone_its_client_hears_of_it(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello")
    heard = await reader.read()
    assert heard.startswith(b"SHUTTING_DOWN: the worker that has the session does not take the connection: ")
    writer.close()


async def test_too_much_with_the_hello_is_refused(crew: Crew) -> None:
    give = give_to(crew, "epoch-1")
    assert give is not None
    with pytest.raises(ServingError, match=f"{OPENING_BYTES + 1} bytes have come .* at most {OPENING_BYTES}") as caught:
        give(asyncio.Transport(), bytes(OPENING_BYTES + 1))
    assert caught.value.code is Code.INVALID_INPUT


LARGEST_HELLO = frames.frame(Kind.MESSAGE, bytes(HELLO_BYTES))


def test_what_may_come_before_the_welcome_is_received_at_once() -> None:
    assert len(LARGEST_HELLO) < OPENING_BYTES < SCRATCH_BYTES


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize(
    "came", [LARGEST_HELLO, LARGEST_HELLO.ljust(OPENING_BYTES)], ids=["the largest hello", "more behind it"]
)
async def test_as_much_as_may_come_with_the_hello_comes_along(crew: Crew, came: bytes) -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        mine.settimeout(LIMIT_S)
        give = give_to(crew, "epoch-1")
        assert give is not None

        class Given(asyncio.Transport):
            def get_extra_info(self, name: str, default: object = None) -> object:
                return theirs

        give(Given(), came)
        assert await asyncio.to_thread(mine.recv, len(came), socket.MSG_WAITALL) == came


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Two files that are no sockets."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


async def test_files_that_are_no_connections_are_closed(other: Crew, port: int, pipe: tuple[int, int]) -> None:
    await said_by(port, b"hello")
    before = open_files()
    with capture_logs() as logs:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as way:
            way.connect(other.connections_of(1))
            socket.send_fds(way, [b"hello"], [pipe[0]])
        await until(lambda: bool(logs))
    await until(lambda: open_files() <= before)
    assert await said_by(port, b"hello") == [b"hello"]


async def test_who_comes_with_nothing_is_not_waited_for(crew: Crew, port: int) -> None:
    with capture_logs() as logs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as way:
        async with taking_connections(replace(crew, index=1), answer, limit_s=0.05):
            way.connect(crew.connections_of(1))
            assert await said_by(port, b"hello") == [b"hello"]
            await until(lambda: bool(logs))
            way.settimeout(LIMIT_S)
            assert await asyncio.to_thread(way.recv, 1) == b""
    assert logs[0]["event"] == "a connection from another worker did not come"


@pytest.mark.parametrize(
    ("said", "reason"), [([b"hello"], "too many files are open"), ([], "the other worker has gone")]
)
async def test_a_worker_that_brings_no_connection_is_logged(
    other: Crew, port: int, said: list[bytes], reason: str
) -> None:
    with capture_logs() as logs:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as way:
            way.connect(other.connections_of(1))
            for word in said:
                way.send(word)
        await until(lambda: bool(logs))
    assert [each["reason"] for each in logs] == [reason]
    assert await said_by(port, b"hello") == [b"hello"]


async def test_the_end_waits_for_nobody(crew: Crew) -> None:
    other = replace(crew, index=1)
    before = open_files()
    async with asyncio.timeout(LIMIT_S), taking_connections(other, answer, limit_s=3600):
        way = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        way.connect(other.connections_of(1))
        # Who comes next and leaves is noticed when the first has been let in.
        with capture_logs() as logs:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as next_one:
                next_one.connect(other.connections_of(1))
            await until(lambda: bool(logs))
    with way:
        way.settimeout(LIMIT_S)
        assert way.recv(1) == b""
    assert open_files() == before
