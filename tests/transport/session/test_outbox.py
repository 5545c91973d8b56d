"""Results are gathered while that costs nobody anything, and sent when they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.job import Job, JobState, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.transport.session.outbox import Outbox


def ended(inference_s: float = 0.0001, byte_size: int = 4) -> Job:
    """Make a job that took so long and gave so many bytes."""
    job = Job("m", Work((), (0,)), submitted_at=0.0)
    job.start(0.0)
    job.finish((Tensor(BY_NAME["u8"], (byte_size,), bytes(byte_size)),), inference_s)
    return job


def with_in_flight(count: int, limit: int = 1 << 28) -> Outbox:
    """Make an outbox that waits for executions 0, 1, 2, ..."""
    outbox = Outbox(limit, lambda _, __: None)
    for number in range(count):
        outbox.admit((number,), ended())
    return outbox


def behind(running: int, queued: int) -> tuple[Outbox, list[Job]]:
    """Make an outbox that waits for jobs of which so many run, and the others wait for a slot; and the jobs."""
    outbox = Outbox(1 << 28, lambda _, __: None)
    jobs = [Job("m", Work((), (0,)), submitted_at=0.0) for _ in range(running + queued)]
    for number, job in enumerate(jobs):
        outbox.admit((number,), job)
    for job in jobs[:running]:
        job.start(0.0)
    return outbox, jobs


def is_sent_after(outbox: Outbox, jobs: list[Job], number: int, inference_s: float = 0.005, byte_size: int = 4) -> bool:
    """End the job of this number, whose slot goes to the next that waits; say whether there is something to send."""
    waiting = [job for job in jobs if job.state is JobState.QUEUED]
    if waiting:
        waiting[0].start(0.0)
    outbox.put((number,), ended(inference_s, byte_size))
    return outbox.is_ready


async def falls_due_after(hold_s: float, outbox: Outbox, put: Callable[[], None]) -> bool:
    """Say whether a result falls due so long after it is put, however late that is heard of: timers run in order."""
    loop, order = asyncio.get_running_loop(), list[str]()
    outbox.on_ready = partial(order.append, "due")
    loop.call_later(hold_s, order.append, "before")
    put()
    over = asyncio.Event()
    loop.call_later(hold_s, over.set)
    await over.wait()
    return order == ["before", "due"]


def ids(message: bytes) -> list[int]:
    return [result.ids[0] for result in pb.SessionResponse.FromString(message).results]


async def test_a_lone_result_is_sent_at_once() -> None:
    outbox = with_in_flight(1)
    outbox.put((0,), ended())
    assert outbox.is_ready
    assert ids(outbox.take()) == [0]
    assert outbox.has_ended


async def test_tiny_results_wait_until_as_many_have_ended_as_still_run() -> None:
    outbox = with_in_flight(4)
    outbox.put((0,), ended())
    assert not outbox.is_ready
    outbox.put((1,), ended())
    assert outbox.is_ready
    assert ids(outbox.take()) == [0, 1]
    assert not outbox.has_ended


async def test_a_result_that_took_longer_is_sent_at_once() -> None:
    outbox = with_in_flight(4)
    outbox.put((0,), ended(inference_s=0.005))
    assert outbox.is_ready


async def test_a_result_that_took_longer_waits_while_more_executions_wait_for_a_slot_than_would_be_sent() -> None:
    outbox, jobs = behind(running=3, queued=5)
    assert not is_sent_after(outbox, jobs, 0)
    assert not is_sent_after(outbox, jobs, 1)
    # Three have ended and two wait.
    assert is_sent_after(outbox, jobs, 2)
    assert ids(outbox.take()) == [0, 1, 2]


async def test_a_result_that_took_longer_is_sent_at_once_where_its_next_finds_every_slot_of_its_own() -> None:
    outbox, jobs = behind(running=3, queued=2)
    assert is_sent_after(outbox, jobs, 0)


async def test_a_result_that_took_long_never_waits() -> None:
    outbox, jobs = behind(running=3, queued=50)
    assert is_sent_after(outbox, jobs, 0, inference_s=0.011)


async def test_results_that_took_longer_wait_for_no_more_than_a_message_holds() -> None:
    outbox, jobs = behind(running=3, queued=50)
    assert not is_sent_after(outbox, jobs, 0, byte_size=1 << 20)
    assert is_sent_after(outbox, jobs, 1)


async def test_a_result_waits_twice_as_long_as_its_inference_took_and_a_tiny_one_beside_it_no_longer() -> None:
    outbox, jobs = behind(running=3, queued=50)
    assert await falls_due_after(0.02, outbox, lambda: outbox.put((0,), ended(inference_s=0.01)))
    assert ids(outbox.take()) == [0]
    assert not is_sent_after(outbox, jobs, 1, inference_s=0.01)
    assert await falls_due_after(0.001, outbox, lambda: outbox.put((2,), ended()))
    assert ids(outbox.take()) == [1, 2]


async def test_a_tiny_result_waits_for_slow_ones_only_for_a_moment() -> None:
    outbox = with_in_flight(4)
    assert await falls_due_after(0.001, outbox, lambda: outbox.put((0,), ended()))
    assert ids(outbox.take()) == [0]
    outbox.put((1,), ended())
    assert not outbox.is_ready


async def test_large_results_go_in_messages_of_their_own() -> None:
    outbox = with_in_flight(3)
    for number in range(3):
        outbox.put((number,), ended(byte_size=700_000))
    assert [ids(outbox.take()) for _ in range(3)] == [[0], [1], [2]]
    assert outbox.has_ended


async def test_a_result_over_the_limit_becomes_an_error() -> None:
    outbox = with_in_flight(1, limit=1000)
    outbox.put((0,), ended(byte_size=1001))
    (result,) = pb.SessionResponse.FromString(outbox.take()).results
    assert result.error.code == Code.TOO_LARGE.wire
    assert "at most 1000 fit in a message" in result.error.message


def profiled(layers: int, error: ServingError | None = None) -> Job:
    """Make a job whose profile has so many layers of 1000 characters each."""
    job = ended() if error is None else Job("m", Work((), (0,)), submitted_at=0.0)
    if error is not None:
        job.end(error, 0.0)
    job.take_profile(tuple(LayerTime("n" * 990, "Relu", "kernel") for _ in range(layers)))
    return job


async def test_sentences_and_layers_take_room_as_outputs_do() -> None:
    outbox = with_in_flight(4)
    sentence = "s" * 5000
    outbox.refuse(range(100, 200), ServingError(Code.QUEUE_FULL, sentence))
    outbox.put((0,), profiled(30))
    outbox.put((1,), profiled(50, ServingError(Code.INFERENCE_FAILED, sentence)))
    assert repr(outbox) == "<Outbox: 2 in flight, 102 results of 92308 bytes>"
    assert len(outbox.take()) == pytest.approx(92308, rel=0.02)
    assert repr(outbox) == "<Outbox: 2 in flight, 0 results of 0 bytes>"


async def test_many_long_sentences_are_not_one_message() -> None:
    outbox = with_in_flight(0)
    for number in range(400):
        outbox.refuse((number,), ServingError(Code.INVALID_INPUT, "s" * 5000))
    assert [len(ids(outbox.take())) for _ in range(2)] == [204, 196]


async def test_executions_that_are_refused_together_have_one_sentence() -> None:
    outbox = with_in_flight(3)
    outbox.refuse((0, 1, 9), ServingError(Code.MODEL_NOT_FOUND, "not here"))
    outbox.put((2,), ended())
    refused, other = pb.SessionResponse.FromString(outbox.take()).results
    assert (list(refused.ids), refused.error.message, list(other.ids)) == ([0, 1, 9], "not here", [2])
    assert outbox.has_ended


async def test_a_profile_over_the_limit_becomes_an_error_without_it() -> None:
    outbox = with_in_flight(1, limit=1000)
    outbox.put((0,), profiled(1))
    message = outbox.take()
    (result,) = pb.SessionResponse.FromString(message).results
    assert (result.error.code, list(result.profile)) == (Code.TOO_LARGE.wire, [])
    assert len(message) <= 1000


async def test_it_has_no_room_while_too_much_waits_to_be_sent() -> None:
    outbox = with_in_flight(2)
    outbox.put((0,), ended(byte_size=65 << 20))
    assert not outbox.has_room
    outbox.take()
    assert outbox.has_room


async def test_whoever_takes_from_it_hears_of_what_is_ready_and_of_nothing_else() -> None:
    heard: list[bool] = []
    outbox = with_in_flight(4)
    outbox.on_ready = lambda: heard.append(outbox.is_ready)
    outbox.put((0,), ended())
    assert heard == []
    outbox.put((1,), ended())
    assert heard == [True]


@pytest.mark.parametrize(
    ("ids", "used"), [((3,), None), ((1,), 1), ((3, 4), None), ((3, 1, 4), 1), ((3, 4, 3), 3), ((5, 5, 1), 5)]
)
async def test_one_id_is_named_that_two_executions_would_have(ids: tuple[int, ...], used: int | None) -> None:
    assert with_in_flight(2).in_use(ids) == used


async def test_a_job_of_many_executions_runs_once() -> None:
    outbox, job = with_in_flight(0), ended()
    outbox.admit((1, 2, 3), job)
    assert list(outbox.jobs) == [job]
    assert outbox.in_flight(2) == (job, (1, 2, 3))
    assert outbox.in_flight(4) is None


async def test_the_repr_counts() -> None:
    outbox = with_in_flight(2)
    outbox.refuse((7,), ServingError(Code.QUEUE_FULL, "full"))
    assert repr(outbox) == "<Outbox: 2 in flight, 1 results of 132 bytes>"
