"""What a session on a socket writes, and when, and when it listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from tests.transport.session.carriers import joined
from tests.transport.session.driven import MOST_BYTES, Clock, Driven, Recorded, execution, row

from inferwire_proto import frames
from inferwire_proto.errors import Code
from inferwire_proto.frames import Kind
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.errors import ServingError
from inferwire_server.service import Services
from inferwire_server.transport.life_signs import Patience
from inferwire_server.transport.session.socket_sessions import SocketSessions


@pytest_asyncio.fixture
async def sockets(services: Services, clock: Clock) -> AsyncIterator[SocketSessions]:
    with SocketSessions(services, MOST_BYTES, Patience(), clock) as sessions:
        yield sessions


@pytest_asyncio.fixture
async def driven(sockets: SocketSessions, services: Services) -> AsyncIterator[Driven]:
    made = Driven(sockets, services)
    yield made
    made.session.connection_lost(None)


async def a_turn() -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_soon(passed.set)
    await passed.wait()


async def test_results_of_one_turn_are_written_together(driven: Driven) -> None:
    driven.end(1)
    driven.end(2)
    assert driven.transport.kinds() == []
    await a_turn()
    (message,) = driven.transport.calls
    assert [list(each.ids) for each in pb.SessionResponse.FromString(message[8:]).results] == [[1], [2]]


async def test_what_a_message_has_ready_is_written_before_the_next_is_taken(driven: Driven) -> None:
    """Or whoever sent two halves of its executions would get them back as one, and wait in between."""
    messages = [joined(pb.SessionRequest(executions=[execution(at, "nobody")]), [row(1.0)]) for at in (1, 2)]
    driven.receive_bytes(b"".join(frames.frame(Kind.MESSAGE, each) for each in messages))
    answers = [pb.SessionResponse.FromString(written[8:]).results for written in driven.transport.calls]
    assert [[list(result.ids) for result in results] for results in answers] == [[[1]], [[2]]]


async def test_large_messages_are_not_copied_behind_their_headers(driven: Driven) -> None:
    driven.end(1, 500_000)
    driven.end(2, 700_000)
    await a_turn()
    assert driven.transport.kinds() == [["MESSAGE"], ["MESSAGE"]]


async def test_who_takes_nothing_is_written_nothing_more(driven: Driven) -> None:
    driven.session.pause_writing()
    driven.end(1)
    driven.receive(Kind.PING, Kind.PING, Kind.PING)
    await a_turn()
    assert driven.transport.kinds() == []
    driven.session.resume_writing()
    await a_turn()
    assert driven.transport.kinds() == ["PONG", "MESSAGE"]


async def test_who_lets_too_much_wait_is_listened_to_no_more(driven: Driven) -> None:
    driven.session.pause_writing()
    for number in range(65):
        driven.end(number, MOST_BYTES - 1000)
    await a_turn()
    assert driven.transport.kinds() == ["pause"]
    driven.session.resume_writing()
    await a_turn()
    assert driven.transport.kinds() == [*([["MESSAGE"]] * 65), "resume"]


async def test_the_end_waits_for_what_is_not_taken(driven: Driven) -> None:
    driven.session.pause_writing()
    driven.end(1)
    driven.receive(Kind.END)
    await a_turn()
    assert driven.transport.kinds() == []
    driven.session.resume_writing()
    await a_turn()
    assert driven.transport.kinds() == ["MESSAGE", "END", "eof"]
    driven.receive(Kind.PING)
    assert driven.transport.kinds() == []


async def test_who_was_not_listened_to_is_heard_until_it_closes(driven: Driven) -> None:
    driven.session.pause_writing()
    for number in range(65):
        driven.end(number, MOST_BYTES - 1000)
    await a_turn()
    driven.session._refuse(ServingError(Code.INTERNAL, "bad"))
    assert driven.transport.kinds() == ["pause", "END", "resume", "eof"]


async def test_a_stuck_peer_is_cut_off_though_it_is_not_listened_to(
    driven: Driven, sockets: SocketSessions, clock: Clock
) -> None:
    driven.transport.unsent = 100_000
    for after in (30, 10):
        clock.now += after
        sockets.check()
    assert driven.transport.kinds() == ["PING", "abort"]


async def test_idle_connections_share_where_they_receive(driven: Driven, sockets: SocketSessions) -> None:
    another = Recorded()
    sockets.take_over(another, b"")
    mine, others = driven.session.get_buffer(-1), another.calls[1].get_buffer(-1)
    mine[:5] = b"hello"
    assert others[:5] == b"hello"
    another.calls[1].connection_lost(None)
