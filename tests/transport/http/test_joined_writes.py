"""What is written to a connection in one go of the loop leaves it together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.waiting import a_turn

from inferwire_server.transport.http.joined_writes import MOST_HELD, JoinedWrites


class Recorded(asyncio.Transport):
    """Remembers what it was given, and in how many calls."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.calls: list[bytes] = []
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.calls.append(b"".join(list_of_data))

    def close(self) -> None:
        self.calls.append(b"closed")

    def abort(self) -> None:
        self.calls.append(b"aborted")

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return bool(self.calls) and self.calls[-1] in (b"closed", b"aborted")


@dataclass
class Peer:
    """Says whether more is to come."""

    is_in_body: bool = False


async def joined(*, is_in_body: bool = False) -> tuple[JoinedWrites, Recorded]:
    inner = Recorded()
    return JoinedWrites(inner, asyncio.get_running_loop(), Peer(is_in_body)), inner


async def test_parts_go_out_together() -> None:
    transport, inner = await joined()
    transport.write(b"head")
    transport.write(b"body")
    assert inner.calls == []
    await a_turn()
    assert inner.calls == [b"headbody"]
    transport.write(b"next")
    await a_turn()
    assert inner.calls == [b"headbody", b"next"]


async def test_much_goes_out_at_once() -> None:
    transport, inner = await joined()
    much = bytes(MOST_HELD)
    transport.write(b"head")
    transport.write(much)
    assert inner.calls == [b"head" + much]
    transport.write(b"next")
    assert len(inner.calls) == 1
    await a_turn()
    assert inner.calls[1:] == [b"next"]


async def test_lines_go_out_at_once_behind_what_was_written() -> None:
    transport, inner = await joined()
    transport.write(b"first ")
    transport.writelines((b"head", b"body"))
    assert inner.calls == [b"first headbody"]
    await a_turn()
    assert len(inner.calls) == 1


async def test_what_is_written_goes_out_before_a_close() -> None:
    transport, inner = await joined()
    transport.write(b"answer")
    transport.close()
    await a_turn()
    assert inner.calls == [b"answer", b"closed"]
    assert transport.is_closing()


async def test_a_peer_is_heard_out_before_a_close_unless_it_is_told_twice() -> None:
    transport, inner = await joined(is_in_body=True)
    transport.write(b"head")
    transport.close()
    assert (inner.calls, transport.is_to_be_closed) == ([b"head"], True)
    transport.close()
    assert inner.calls == [b"head", b"closed"]


async def test_what_waits_here_and_there_is_told() -> None:
    transport, inner = await joined()
    inner.unsent = 3
    transport.write(b"answer")
    assert transport.get_write_buffer_size() == 9
    await a_turn()
    assert transport.get_write_buffer_size() == 3


async def test_an_abort_drops_it() -> None:
    transport, inner = await joined()
    transport.write(b"answer")
    transport.abort()
    await a_turn()
    assert inner.calls == [b"aborted"]


async def test_nothing_is_written_to_a_closed_connection() -> None:
    transport, inner = await joined()
    transport.write(b"answer")
    inner.close()
    await a_turn()
    assert inner.calls == [b"closed"]


async def test_the_socket_is_the_inner_one() -> None:
    transport, _ = await joined()
    assert transport.get_extra_info("peername") == ("127.0.0.1", 1)
    assert transport.get_extra_info("nothing", "default") == "default"
