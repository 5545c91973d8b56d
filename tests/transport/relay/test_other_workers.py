"""What a worker says to another, and hears of one that answers no more, on real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from tests.clock import Clock
from tests.transport.served_methods import served_methods
from tests.waiting import LIMIT_S

from inferwire_proto.errors import Code
from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.rpc.call_head import Metadata
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import Method

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


@pytest.mark.parametrize("is_ending", [False, True])
@pytest.mark.parametrize("answer", [greet, leave])
async def test_a_call_ends_where_the_other_worker_is_silent_or_has_gone(
    crew: Crew,
    listener: socket.socket,
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    is_ending: bool,
) -> None:
    answering: list[asyncio.Task[None] | None] = []

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.append(asyncio.current_task())
        await answer(reader, writer)

    async with asyncio.timeout(LIMIT_S):
        async with (
            await asyncio.start_unix_server(answered, sock=listener),
            OtherWorkers(crew, silence_s=0.05) as other_workers,
        ):
            if is_ending:
                other_workers.may_leave()
            with pytest.raises(ServingError) as refused:
                await other_workers.ask(1, "a.Service.Call", b"", None, alone=True)
        # The loop may not end before their connections have.
        await asyncio.gather(*filter(None, answering))
    expected = (
        (Code.SHUTTING_DOWN, "the server is shutting down")
        if is_ending
        else (Code.MODEL_NOT_READY, "worker 2 of this server does not answer")
    )
    assert (refused.value.code, refused.value.message) == expected


async def test_the_log_says_once_a_minute_why_a_worker_cannot_be_called(crew: Crew) -> None:
    clock = Clock()
    async with OtherWorkers(crew, clock=clock) as other_workers:

        async def fail(*, says_so: bool) -> None:
            with capture_logs() as logged, pytest.raises(ServingError, match="worker 2 of this server does not answer"):
                await other_workers.ask(1, "a.Service.Call", b"", None, alone=True)
            assert [(line["event"], line["number"]) for line in logged] == [("a worker cannot be called", 2)] * says_so
            assert all("No such file or directory" in line["reason"] for line in logged)

        await fail(says_so=True)
        await fail(says_so=False)
        clock.now += 60
        await fail(says_so=True)
        other_workers.may_leave()
        clock.now += 60
        with capture_logs() as logged, pytest.raises(ServingError, match="shutting down"):
            await other_workers.ask(1, "a.Service.Call", b"", None, alone=True)
        assert logged == []


async def test_the_log_says_why_a_session_s_worker_cannot_be_called(crew: Crew) -> None:
    async with OtherWorkers(crew) as other_workers:
        with capture_logs() as logged, pytest.raises(ServingError, match="which has the session, does not answer"):
            async with other_workers.call(1, "a.Service.Call", cast("Any", Said(()))) as call:
                await call.read()
    assert [(line["event"], line["number"]) for line in logged] == [("a worker cannot be called", 2)]


@dataclass
class Said:
    """The context of a call whose caller says so much."""

    metadata: Metadata


async def heard(crew: Crew, *metadata: tuple[str, str]) -> Metadata:
    """Ask the other worker on behalf of a caller, and give what it hears beside the message."""
    seen: list[Metadata] = []

    async def answer(data: bytes, context: Context) -> bytes:
        seen.append(context.metadata)
        return data

    async with (
        served_methods({"/a.Service/Call": Method(answer)}, at=crew.folder / "calls-1"),
        OtherWorkers(crew) as other_workers,
    ):
        asked = cast("Any", Said(metadata))
        assert await other_workers.ask(1, "a.Service.Call", b"asked", asked, alone=False) == b"asked"
    return tuple(sorted(entry for entry in seen[0] if entry[0] not in ("user-agent", "inferwire-crew")))


async def test_another_worker_hears_a_callers_key_trace_and_id_and_nothing_that_it_does_not_read(crew: Crew) -> None:
    further = (("traceparent", "00-1"), ("tracestate", "a=1"), ("tracestate", "b=2"), ("x-request-id", "mine"))
    said = await heard(
        crew,
        ("user-agent", "tests"),
        ("authorization", "Bearer key\t"),
        ("x-user", "\xe9"),
        ("a!", "1"),
        ("long", "a" * 65_000),
        ("inferwire-crew", "forged"),
        *further,
    )
    assert said == (("authorization", "Bearer key"), *further)


@pytest.mark.parametrize("value", ["Bearer \xe9", "a\tb", "a\x7f"])
async def test_what_is_no_key_no_trace_and_no_id_is_not_passed_on(crew: Crew, value: str) -> None:
    said = ((name, value) for name in ("authorization", "traceparent", "tracestate", "x-request-id"))
    assert await heard(crew, *said) == ()


async def test_whatever_a_caller_may_say_has_room_in_the_call_of_a_worker(crew: Crew) -> None:
    # A caller's limit counts 32 bytes for each header beside its text, and :method, :scheme, :path and its content's
    # type are there in any case.
    longest = ("traceparent", "a" * 65_200)
    assert await heard(crew, longest) == (longest,)
