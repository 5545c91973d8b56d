"""What a worker hears of another that answers no more, on real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.transport.session.carriers import LIMIT_S

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.relay.colleagues import Colleagues
from inferwire_server.transport.relay.crew import Crew

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
"""HTTP/2's first frame, which settles nothing."""


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Speak HTTP/2, and say nothing after that."""
    writer.write(SETTINGS)
    while await reader.read(1 << 16):
        pass
    writer.close()


async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    """Two workers, in a folder whose name is none in an address before it is written as one."""
    folder = tmp_path / "a%20b #?ü"
    folder.mkdir()
    return Crew(0, 2, folder, "token")


@pytest.fixture
async def listener(crew: Crew) -> AsyncIterator[socket.socket]:
    """Where the other worker listens."""
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(crew.folder / "calls-1"))
        yield opened


@pytest.mark.parametrize("answer", [greet, leave])
async def test_a_call_ends_where_the_other_worker_is_silent_or_has_gone(
    crew: Crew, listener: socket.socket, answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> None:
    answering: list[asyncio.Task[None] | None] = []

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.append(asyncio.current_task())
        await answer(reader, writer)

    async with asyncio.timeout(LIMIT_S):
        async with (
            await asyncio.start_unix_server(answered, sock=listener),
            Colleagues(crew, silence_s=0.05) as colleagues,
        ):
            with pytest.raises(ServingError, match="worker 2 of this server, which answers this, has gone") as refused:
                await colleagues.ask(1, "a.Service.Call", b"", None, alone=True)
        # The loop may not end before their connections have.
        await asyncio.gather(*filter(None, answering))
    assert refused.value.code is Code.SHUTTING_DOWN
