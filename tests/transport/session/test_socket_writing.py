"""What a session on a socket writes, and when, and when it listens."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.clock import Clock
from tests.transport.session.carriers import joined
from tests.transport.session.driven import MOST_BYTES, Driven, Recorded, execution, row
from tests.waiting import a_turn

from inferwire_proto import frames
from inferwire_proto.errors import Code
from inferwire_proto.frames import Kind
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.errors import ServingError
from inferwire_server.service import Services
from inferwire_server.transport.keepalive import PeerTimeouts
from inferwire_server.transport.session.socket_sessions import SocketSessions


@pytest_asyncio.fixture
async def sockets(services: Services, clock: Clock) -> AsyncIterator[SocketSessions]:
    with SocketSessions(services, MOST_BYTES, PeerTimeouts(), clock) as sessions:
        yield sessions


@pytest_asyncio.fixture
async def driven(sockets: SocketSessions, services: Services) -> AsyncIterator[Driven]:
    made = Driven(sockets, services)
    yield made
    made.session.connection_lost(None)


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


def message_of(ids: range) -> bytes:
    """Write a message of executions that are refused."""
    return frames.frame(Kind.MESSAGE, joined(pb.SessionRequest(executions=[pb.Execution(ids=[at]) for at in ids])))


def answered(driven: Driven) -> list[int]:
    """Give the ids of the results that are written, and forget these."""
    written = [call for call in driven.transport.calls if isinstance(call, bytes)]
    results = [result for call in written for result in pb.SessionResponse.FromString(call[8:]).results]
    driven.transport.calls.clear()
    return [execution_id for result in results for execution_id in result.ids]


async def test_nothing_more_is_read_until_all_that_has_come_is_taken_in(driven: Driven) -> None:
    driven.receive_bytes(message_of(range(1000)) + message_of(range(1000, 2000)) + frames.frame(Kind.END))
    kinds = driven.transport.kinds()
    while "END" not in kinds:
        await a_turn()
        kinds += driven.transport.kinds()
    assert [kind for kind in kinds if kind != "MESSAGE"] == ["pause", "resume", "END", "eof"]


async def test_messages_are_taken_in_in_their_order_however_many_executions_they_have(driven: Driven) -> None:
    driven.receive_bytes(
        b"".join(message_of(range(at, at + count)) for at, count in ((0, 1000), (1000, 1), (1001, 500)))
    )
    found: list[int] = []
    while len(found) < 1501:
        found += answered(driven)
        await a_turn()
    assert found == [*range(1501)]


async def test_small_messages_that_come_together_are_not_all_taken_in_at_once(driven: Driven) -> None:
    driven.receive_bytes(b"".join(message_of(range(at, at + 1)) for at in range(2000)))
    assert len(answered(driven)) <= 5 * 64


async def test_of_who_takes_no_results_no_more_of_a_message_is_taken_in(driven: Driven) -> None:
    driven.session.pause_writing()
    for number in range(5000, 5065):
        driven.end(number, MOST_BYTES - 1000)
    driven.receive_bytes(message_of(range(1000)))
    for _ in range(100):
        await a_turn()
    assert driven.transport.kinds() == ["pause"]
    assert driven.outbox.expects_more
    driven.session.resume_writing()
    while driven.outbox.expects_more:
        await a_turn()
    await a_turn()
    assert driven.transport.kinds()[-1] == "resume"


async def test_of_who_is_lost_in_the_middle_of_a_message_nothing_more_is_taken_in(
    driven: Driven, services: Services, sockets: SocketSessions
) -> None:
    driven.receive_bytes(message_of(range(2000)))
    taken = sum(services.refusals.counts.values())
    assert 0 < taken < 2000
    driven.session.cut_off()
    for _ in range(100):
        await a_turn()
    assert sum(services.refusals.counts.values()) == taken
    assert repr(sockets.turns) == "<Turns: 0 connections wait>"


async def test_a_message_that_cannot_be_read_to_its_end_ends_the_connection_there(driven: Driven) -> None:
    executions = [pb.Execution(ids=[at]) for at in range(1000)]
    message = joined(pb.SessionRequest(executions=[*executions, pb.Execution()]))
    driven.receive_bytes(frames.frame(Kind.MESSAGE, message))
    kinds = driven.transport.kinds()
    while "END" not in kinds:
        await a_turn()
        kinds += driven.transport.kinds()
    assert [kind for kind in kinds if kind != "MESSAGE"] == ["pause", "END", "resume", "eof"]


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
