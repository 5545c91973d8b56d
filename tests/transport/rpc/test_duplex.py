"""A stream's two directions: what either does when the other has stopped."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.waiting import LIMIT_S

from inferwire_server.transport.draining import Drain
from inferwire_server.transport.rpc.duplex import Duplex


class Peer:
    """A context whose client sends what it is given. It has room for one answer, and for more once it may take them."""

    def __init__(self, *messages: bytes) -> None:
        self.unread = deque(messages)
        self.written: list[bytes] = []
        self.takes = asyncio.Event()

    async def read(self) -> bytes | None:
        await asyncio.sleep(0)
        return self.unread.popleft() if self.unread else None

    @property
    def has_room(self) -> bool:
        return self.takes.is_set() or not self.written

    def send(self, message: bytes) -> None:
        self.written.append(message)

    async def wait_for_room(self) -> None:
        if not self.has_room:
            await self.takes.wait()


class Echo:
    """Sends back what was taken in, and has room for two."""

    def __init__(self) -> None:
        self.on_ready: Callable[[], None]
        self.waiting: deque[bytes] = deque()
        self.is_full = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return bool(self.waiting)

    @property
    def has_ended(self) -> bool:
        return not self.waiting

    def put(self, message: bytes) -> None:
        if message == b"bad":
            raise ValueError("bad")
        self.waiting.append(message)
        self.on_ready()

    @property
    def has_room(self) -> bool:
        if len(self.waiting) < 2:
            return True
        self.is_full.set()
        return False

    def take(self) -> bytes:
        return self.waiting.popleft()


def duplex(peer: Any, echo: Echo, take_in: Callable[[bytes], Awaitable[None] | None] | None = None) -> Duplex:
    return Duplex(peer, Drain(), echo, take_in or echo.put)


async def test_what_takes_long_to_take_in_is_waited_for_before_the_next() -> None:
    peer, echo, ready = Peer(b"long", b"short"), Echo(), asyncio.Event()
    begun = asyncio.Event()
    peer.takes.set()

    async def take_in_slowly(message: bytes) -> None:
        begun.set()
        await ready.wait()
        echo.put(message)

    def take_in(message: bytes) -> Awaitable[None] | None:
        return take_in_slowly(message) if message == b"long" else echo.put(message)

    running = asyncio.ensure_future(duplex(peer, echo, take_in).run())
    await begun.wait()
    assert (list(peer.unread), peer.written) == ([b"short"], [])
    ready.set()
    await running
    assert peer.written == [b"long", b"short"]


async def test_nothing_more_is_read_of_a_client_that_takes_no_answers() -> None:
    peer, echo = Peer(b"1", b"2", b"3", b"4", b"5", b"6"), Echo()
    running = asyncio.ensure_future(duplex(peer, echo).run())
    await asyncio.wait_for(echo.is_full.wait(), LIMIT_S)
    assert peer.unread
    peer.takes.set()
    await running
    assert peer.written == [b"1", b"2", b"3", b"4", b"5", b"6"]


async def test_an_answer_that_is_there_goes_before_the_next_message_is_read() -> None:
    class Ordered(Peer):
        async def read(self) -> bytes | None:
            unwritten.append(len(echo.waiting))
            return await super().read()

    unwritten: list[int] = []
    peer, echo = Ordered(b"1", b"2", b"3"), Echo()
    peer.takes.set()
    await duplex(peer, echo).run()
    assert unwritten == [0, 0, 0, 0]


class Gathering(Echo):
    """Makes answers of all that was taken in during a turn of the loop, in the next one."""

    def __init__(self, on_run: Callable[[], object]) -> None:
        super().__init__()
        self.gathered: list[bytes] = []
        self.runs: list[list[bytes]] = []
        self.on_run = on_run

    @property
    def has_ended(self) -> bool:
        return not self.waiting and not self.gathered

    @property
    def has_room(self) -> bool:
        return True

    def put(self, message: bytes) -> None:
        if not self.gathered:
            asyncio.get_running_loop().call_soon(self.run)
        self.gathered.append(message)

    def run(self) -> None:
        self.runs.append(self.gathered)
        self.waiting += self.gathered
        self.gathered = []
        self.on_run()
        self.on_ready()


async def test_all_that_has_come_is_taken_in_before_a_turn_of_the_loop_also_behind_what_is_answered() -> None:
    class Burst(Peer):
        async def read(self) -> bytes | None:
            if len(self.unread) == 5:
                await first_has_run.wait()
            return self.unread.popleft() if self.unread else None

    first_has_run = asyncio.Event()
    peer, gathering = Burst(b"1", b"2", b"3", b"4", b"5", b"6"), Gathering(first_has_run.set)
    peer.takes.set()

    await duplex(peer, gathering).run()

    assert gathering.runs == [[b"1"], [b"2", b"3", b"4", b"5", b"6"]]
    assert peer.written == [b"1", b"2", b"3", b"4", b"5", b"6"]


async def test_what_cannot_be_taken_in_ends_it() -> None:
    peer, echo = Peer(b"1", b"bad", b"2"), Echo()
    peer.takes.set()
    with pytest.raises(ValueError, match="bad"):
        await duplex(peer, echo).run()
    assert list(peer.unread) == [b"2"]


async def test_leaving_it_ends_both_directions() -> None:
    peer, echo = Peer(b"1", b"2", b"3", b"4"), Echo()
    running = asyncio.ensure_future(duplex(peer, echo).run())
    await asyncio.wait_for(echo.is_full.wait(), LIMIT_S)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    peer.takes.set()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (peer.written, list(peer.unread)) == ([b"1"], [b"4"])
