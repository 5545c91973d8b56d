"""How connections are taken: many at a turn, later where there is no room, and none at the end."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.waiting import LIMIT_S, until

from inferwire_server.transport import accepting as accepting_module
from inferwire_server.transport.accepting import Accepting, speaking

MOST = accepting_module._MOST_AT_ONCE


class Turns:
    """Counts the turns of the loop, and in which of them each connection was let in."""

    def __init__(self) -> None:
        self.count = 0
        self.let_in = Counter[int]()
        self._next()

    def _next(self) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self._next)

    async def take(self, connection: socket.socket) -> None:
        self.let_in[self.count] += 1
        connection.close()


class Gate:
    """Lets connections in once it is open."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.waiting: list[socket.socket] = []
        self.inside = 0

    async def let_in(self, connection: socket.socket) -> None:
        with connection:
            self.waiting.append(connection)
            await self.is_open.wait()
            self.inside += 1


class Failing(socket.socket):
    """A listener that cannot take who comes, as often as there are errors."""

    errors: list[int]

    def accept(self) -> tuple[socket.socket, Any]:
        if self.errors:
            raise OSError(self.errors.pop(), "it cannot")
        return super().accept()


@pytest.fixture
def listener() -> Generator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        yield opened


@pytest.fixture
def failing() -> Generator[Failing]:
    with Failing() as opened:
        opened.errors = []
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        yield opened


@pytest.fixture
def come(listener: socket.socket) -> Generator[Callable[[int], None]]:
    """Gives what has so many connect."""
    with ExitStack() as connections:

        def connect(count: int) -> None:
            for _ in range(count):
                connections.enter_context(socket.create_connection(listener.getsockname(), LIMIT_S))

        yield connect


async def test_those_that_have_come_are_taken_together(listener: socket.socket, come: Callable[[int], None]) -> None:
    turns = Turns()
    accepting = Accepting(listener, turns.take)
    come(20)
    await until(lambda: turns.let_in.total() == 20)
    assert len(turns.let_in) == 1
    await accepting.end()


async def test_others_have_a_turn_before_very_many_are_taken(
    listener: socket.socket, come: Callable[[int], None]
) -> None:
    turns = Turns()
    accepting = Accepting(listener, turns.take)
    come(MOST + 1)
    await until(lambda: turns.let_in.total() == MOST + 1)
    assert sorted(turns.let_in.values()) == [1, MOST]
    await accepting.end()


async def test_who_cannot_be_taken_waits_and_the_log_says_so_once_a_minute(
    failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(accepting_module, "_AGAIN_S", 0.001)
    turns = Turns()
    accepting = Accepting(failing, turns.take, lambda: now)

    async def take(*errors: int) -> list[tuple[str, str]]:
        failing.errors = list(errors)
        before = turns.let_in.total()
        with capture_logs() as logs, socket.create_connection(failing.getsockname(), LIMIT_S):
            await until(lambda: turns.let_in.total() > before)
        return [(each["event"], each["reason"]) for each in logs]

    told = [("new connections have to wait", "Too many open files")]
    assert await take(errno.EMFILE, errno.EMFILE) == told
    now += 59
    assert await take(errno.EMFILE) == []
    now += 1
    assert await take(errno.EMFILE) == told
    await accepting.end()


async def test_one_that_has_gone_is_in_nobodys_way(failing: Failing) -> None:
    turns = Turns()
    accepting = Accepting(failing, turns.take)
    failing.errors = [errno.ECONNABORTED]
    with capture_logs() as logs, socket.create_connection(failing.getsockname(), LIMIT_S):
        await until(lambda: turns.let_in.total() == 1)
    assert logs == []
    await accepting.end()


async def test_once_it_is_closed_those_come_in_that_were_on_their_way(
    listener: socket.socket, come: Callable[[int], None]
) -> None:
    gate, address = Gate(), listener.getsockname()
    accepting = Accepting(listener, gate.let_in)
    come(2)
    await until(lambda: len(gate.waiting) == 2)
    assert repr(accepting) == "<Accepting: 2 on their way in>"
    accepting.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, LIMIT_S)
    gate.is_open.set()
    await until(lambda: gate.inside == 2)
    await accepting.end()


async def test_once_it_is_closed_those_come_in_that_have_come(
    listener: socket.socket, come: Callable[[int], None]
) -> None:
    turns = Turns()
    accepting = Accepting(listener, turns.take)
    come(MOST + 1)
    accepting.close()
    await until(lambda: turns.let_in.total() == MOST + 1)
    await accepting.end()


async def test_at_the_end_those_stay_outside(listener: socket.socket, come: Callable[[int], None]) -> None:
    gate = Gate()
    accepting = Accepting(listener, gate.let_in)
    come(2)
    await until(lambda: len(gate.waiting) == 2)
    async with asyncio.timeout(LIMIT_S):
        await accepting.end()
    gate.is_open.set()
    assert [connection.fileno() for connection in gate.waiting] == [-1, -1]
    assert gate.inside == 0
    assert repr(accepting) == "<Accepting: 0 on their way in>"


async def test_who_was_taken_at_the_turn_of_the_end_is_closed(
    listener: socket.socket, come: Callable[[int], None]
) -> None:
    gate = Gate()
    accepting = Accepting(listener, gate.let_in)
    come(1)
    accepting._take()
    await accepting.end()
    assert [connection.fileno() for connection in gate.waiting] == [-1]


@pytest.mark.parametrize("is_closed", [False, True])
async def test_nobody_is_taken_after_the_end_though_it_was_to_be_tried_again(
    failing: Failing, monkeypatch: pytest.MonkeyPatch, *, is_closed: bool
) -> None:
    monkeypatch.setattr(accepting_module, "_AGAIN_S", 0.001)
    loop_errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: loop_errors.append(context))
    accepting = Accepting(failing, Gate().let_in)
    failing.errors = [errno.ENOBUFS] * 2
    with capture_logs() as logs, socket.create_connection(failing.getsockname(), LIMIT_S):
        await until(lambda: bool(logs))
        if is_closed:
            accepting.close()
        await accepting.end()
    await asyncio.sleep(0.01)
    assert loop_errors == []


async def test_who_cannot_be_taken_when_it_is_closed_stays_outside(
    failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting_module, "_AGAIN_S", 0.001)
    loop_errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: loop_errors.append(context))
    accepting = Accepting(failing, Gate().let_in)
    failing.errors = [errno.EMFILE, errno.EMFILE]
    with socket.create_connection(failing.getsockname(), LIMIT_S) as outside:
        accepting.close()
        assert failing.errors == [errno.EMFILE]
        with pytest.raises(ConnectionResetError):
            await asyncio.to_thread(outside.recv, 1)
        await accepting.end()
    assert loop_errors == []


async def test_a_protocol_begins_on_each(listener: socket.socket, come: Callable[[int], None]) -> None:
    begun: list[asyncio.BaseTransport] = []

    class Speaker(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            begun.append(transport)

    accepting = Accepting(listener, speaking(Speaker))
    come(3)
    await until(lambda: len(begun) == 3)
    await accepting.end()
    assert [transport.is_closing() for transport in begun] == [False] * 3
    for transport in begun:
        transport.close()
