"""The scheduler where several callers want the same model: whoever has many jobs there does not keep the others out."""

from __future__ import annotations

from collections.abc import Iterable

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.callers import at_host
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.caller_turns import MOST_SERVED, CallerTurns
from inferwire_server.core.scheduling.effects import Effect, Start
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.scheduling.lane import DEFAULT_TERMS, Terms
from inferwire_server.core.scheduling.queue import JobQueue
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.tensors import Tensor

U8 = BY_NAME["u8"]
DONE = ((),)
"""The outcome of a run of one job: its outputs, none."""


def a_job(host: str, width: int = 1, priority: int = 0) -> Job:
    work = Work((Tensor(U8, (1, width), bytes(width)),), (0,))
    return Job("m", work, 0.0, priority, caller=at_host(host))


def host_of(job: Job) -> str:
    assert job.caller is not None
    return str(job.caller.identity)


def a_scheduler(terms: Terms = DEFAULT_TERMS) -> Scheduler:
    scheduler = Scheduler(capacity=1000)
    scheduler.add_model("m", 1, terms)
    return scheduler


def flooded(scheduler: Scheduler, jobs: int) -> list[Job]:
    """Have a caller wait with so many jobs; one more of its runs."""
    flood = [a_job("flood") for _ in range(jobs + 1)]
    for job in flood:
        scheduler.submit(job, 0.0)
    return flood[1:]


def started(effects: Iterable[Effect]) -> list[tuple[Job, ...]]:
    return [effect.jobs for effect in effects if isinstance(effect, Start)]


def test_a_lone_caller_waits_for_one_job_of_a_caller_with_hundreds() -> None:
    scheduler = a_scheduler()
    flood = flooded(scheduler, 300)
    single = a_job("lone")
    scheduler.submit(single, 1.0)
    assert started(scheduler.report("m", 0, DONE, 2.0)) == [(flood[0],)]
    assert started(scheduler.report("m", 0, DONE, 3.0)) == [(single,)]
    assert started(scheduler.report("m", 0, DONE, 4.0)) == [(flood[1],)]


def test_callers_that_ask_again_and_again_do_not_keep_one_with_hundreds_out() -> None:
    scheduler = a_scheduler()
    flood, ran = flooded(scheduler, 300), list[Job]()
    for caller in ("b", "c"):
        scheduler.submit(a_job(caller), 1.0)
    for now in range(30):
        ((job,),) = started(scheduler.report("m", 0, DONE, 2.0 + now))
        ran.append(job)
        host = host_of(job)
        if host != "flood":
            scheduler.submit(a_job(host), 2.0 + now)
    assert [host_of(job) for job in ran] == ["flood", "b", "c"] * 10
    assert [job for job in ran if host_of(job) == "flood"] == flood[:10]


def test_a_batch_has_rows_of_each_caller_before_it_has_more_of_one() -> None:
    scheduler = a_scheduler(Terms(batching=Batching(4)))
    flood = flooded(scheduler, 8)
    few = [a_job("few") for _ in range(2)]
    for job in few:
        scheduler.submit(job, 1.0)
    assert started(scheduler.report("m", 0, DONE, 2.0)) == [(flood[0], few[0], flood[1], few[1])]


def test_a_caller_of_many_shapes_has_no_more_turns_than_one_of_a_single_shape() -> None:
    scheduler = a_scheduler(Terms(batching=Batching(4)))
    flooded(scheduler, 0)
    shapes = [a_job("flood", width=width) for width in range(2, 9)]
    single = a_job("lone")
    for job in (*shapes, single):
        scheduler.submit(job, 1.0)
    assert started(scheduler.report("m", 0, DONE, 2.0)) == [(shapes[0],)]
    assert started(scheduler.report("m", 0, DONE, 3.0)) == [(single,)]


def test_callers_that_have_nothing_waiting_are_forgotten_and_those_that_wait_keep_their_turn() -> None:
    scheduler = a_scheduler()
    patient = [a_job("patient", priority=-1) for _ in range(3)]
    for job in patient:
        scheduler.submit(job, 0.0)
    assert started(scheduler.report("m", 0, DONE, 1.0)) == [(patient[1],)]
    (lane,) = scheduler._lanes.values()  # pyright: ignore[reportPrivateUsage]
    served = lane.turns._served  # pyright: ignore[reportPrivateUsage]
    for index in range(2 * MOST_SERVED):
        urgent = a_job(f"caller {index}")
        scheduler.submit(urgent, 2.0)
        assert started(scheduler.report("m", 0, DONE, 3.0)) == [(urgent,)]
        assert len(served) <= MOST_SERVED
    assert (at_host("patient"), -1) in served


def test_where_very_many_wait_it_is_not_at_each_turn_that_others_are_looked_for_to_forget() -> None:
    turns = CallerTurns()
    queue = JobQueue(turns)
    for index in range(MOST_SERVED + 1):
        job = a_job(f"caller {index}")
        queue.push(job)
        turns.serve(job, turns.of(job))
    assert turns.are_many
    turns.forget_but([queue])
    assert not turns.are_many
    turns.serve(other := a_job("one more"), turns.of(other))
    assert not turns.are_many


def test_turns_say_how_many_callers_they_remember() -> None:
    turns = CallerTurns()
    for host in ("a", "a", "b"):
        job = a_job(host)
        turns.serve(job, turns.of(job))
    assert repr(turns) == "<CallerTurns: 2 callers were served>"
