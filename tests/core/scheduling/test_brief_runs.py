"""Runs that are too brief to wait for the device: beside those that take its places, but in their turn."""

from __future__ import annotations

import pytest
from tests.core.scheduling.test_scheduler import DONE, make_job, started

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.job import Job, Timings, Work
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

ROW = Work((Tensor(BY_NAME["u8"], (1, 1), b"0"),), (0,))


def idle(capacity: int = 8, brief: Terms | None = None) -> Scheduler:
    """Give a scheduler with one place, for a large model and a brief one."""
    scheduler = Scheduler(capacity, 1, "CPU")
    scheduler.add_model("large", 1)
    scheduler.add_model("brief", 2, brief or Terms())
    scheduler.set_brief("brief", is_brief=True)
    return scheduler


def busy(capacity: int = 8, brief: Terms | None = None, waiting: int = 1) -> Scheduler:
    """Give one whose place the large model has, with more jobs behind."""
    scheduler = idle(capacity, brief)
    # What a run of either takes is known.
    scheduler.submit(make_job("large"), 0.0)
    scheduler.report("large", 0, DONE, 0.1)
    for _ in range(1 + waiting):
        scheduler.submit(make_job("large"), 0.1)
    return scheduler


def test_a_brief_run_does_not_wait_for_a_place() -> None:
    scheduler = busy()
    first, second, third = (make_job("brief", 0.1) for _ in range(3))
    assert started(scheduler.submit(first, 0.1)) == [first]
    assert started(scheduler.submit(second, 0.1)) == [second]
    assert started(scheduler.submit(third, 0.1)) == []
    assert scheduler.occupancy.running == 3
    assert started(scheduler.report("brief", 0, DONE, 0.1001)) == [third]


def test_nobody_waits_for_the_place_of_a_brief_run() -> None:
    scheduler = idle()
    scheduler.submit(make_job("brief"), 0.0)
    large = make_job("large")
    assert started(scheduler.submit(large, 0.0)) == [large]


def test_a_run_gives_back_the_place_that_it_took_and_no_other() -> None:
    scheduler = Scheduler(8, 1, "CPU")
    scheduler.add_model("a", 2)
    scheduler.submit(make_job("a"), 0.0)
    scheduler.set_brief("a", is_brief=True)
    scheduler.submit(make_job("a"), 0.0)
    scheduler.set_brief("a", is_brief=False)
    waiting = make_job("a")
    scheduler.submit(waiting, 0.0)
    assert started(scheduler.report("a", 1, DONE, 0.1)) == []
    assert started(scheduler.report("a", 0, DONE, 0.1)) == [waiting]


def test_a_run_that_is_not_brief_after_all_takes_a_place_until_its_end() -> None:
    scheduler = idle()
    scheduler.submit(make_job("brief"), 0.0)
    for _ in range(2):
        scheduler.take_place("brief", 0)
    large = make_job("large")
    assert started(scheduler.submit(large, 0.0)) == []
    assert started(scheduler.report("brief", 0, DONE, 0.1)) == [large]


def test_who_is_brief_no_more_waits_for_a_place() -> None:
    scheduler = busy()
    scheduler.set_brief("brief", is_brief=False)
    job = make_job("brief", 0.1)
    assert started(scheduler.submit(job, 0.1)) == []
    assert started(scheduler.report("large", 0, DONE, 0.2)) == [job]


def test_a_brief_run_does_not_wait_for_more_urgent_jobs_that_want_a_place() -> None:
    scheduler = busy(waiting=0)
    for _ in range(3):
        scheduler.submit(make_job("large", 0.1, priority=1), 0.1)
    job = make_job("brief", 0.1)
    assert started(scheduler.submit(job, 0.1)) == [job]


def test_of_brief_runs_the_most_urgent_is_next() -> None:
    scheduler = busy()
    scheduler.add_model("other", 1)
    scheduler.set_brief("other", is_brief=True)
    for model in ("brief", "brief", "other"):
        scheduler.submit(make_job(model, 0.1), 0.1)
    normal, urgent = make_job("brief", 0.1), make_job("other", 0.1, priority=1)
    for job in (normal, urgent):
        assert started(scheduler.submit(job, 0.1)) == []
    assert started(scheduler.report("other", 0, DONE, 0.1)) == [urgent]
    assert started(scheduler.report("brief", 0, DONE, 0.1)) == [normal]


@pytest.mark.parametrize("urgency_of_large", [0, 1])
def test_brief_runs_take_no_more_than_their_share(urgency_of_large: int) -> None:
    scheduler = busy(brief=Terms(weight=0.001))
    scheduler.submit(make_job("brief", 0.1), 0.1)
    scheduler.report("brief", 0, DONE, 0.101)
    scheduler.submit(make_job("large", 0.101, priority=urgency_of_large), 0.101)
    job = make_job("brief", 0.101)
    assert started(scheduler.submit(job, 0.101)) == []
    assert job in started(scheduler.report("large", 0, DONE, 10.0))


def test_urgent_brief_runs_wait_for_nobody_s_share() -> None:
    scheduler = busy(brief=Terms(weight=0.001))
    scheduler.submit(make_job("brief", 0.1), 0.1)
    scheduler.report("brief", 0, DONE, 0.101)
    job = make_job("brief", 0.101, priority=1)
    assert started(scheduler.submit(job, 0.101)) == [job]


def test_a_full_queue_takes_no_more_of_a_brief_model_than_its_part() -> None:
    scheduler = Scheduler(4, 1, "CPU")
    scheduler.add_model("large", 1)
    scheduler.add_model("brief", 1)
    scheduler.set_brief("brief", is_brief=True)
    for _ in range(5):
        scheduler.submit(make_job("large"), 0.0)
    for _ in range(2):
        assert started(scheduler.submit(make_job("brief"), 0.0)) == []
    for model in ("large", "brief"):
        with pytest.raises(ServingError, match="6 jobs are waiting, at most 4 may"):
            scheduler.submit(make_job(model), 0.0)


def test_who_has_no_slots_for_now_keeps_no_brief_run_waiting() -> None:
    scheduler = idle()
    scheduler.add_model("away", 1)
    scheduler.take_slots("away")
    scheduler.submit(make_job("away", priority=1), 0.0)
    scheduler.submit(make_job("large"), 0.0)
    job = make_job("brief")
    assert started(scheduler.submit(job, 0.0)) == [job]


def test_a_batch_that_waits_for_more_is_woken_for_though_all_places_are_taken() -> None:
    scheduler = busy(brief=Terms(batching=Batching(4, max_delay_s=0.01)))
    scheduler.submit(Job("brief", ROW, 0.1), 0.1)
    job = Job("brief", ROW, 0.2)
    assert started(scheduler.submit(job, 0.2)) == []
    assert scheduler.next_wake == pytest.approx(0.21)
    assert started(scheduler.wake(0.22)) == [job]


def test_a_batch_that_has_waited_and_has_not_its_turn_asks_for_no_wake() -> None:
    scheduler = Scheduler(8, 2, "CPU")
    scheduler.add_model("large", 2)
    scheduler.add_model("brief", 2, Terms(batching=Batching(4, max_delay_s=0.01)))
    scheduler.submit(Job("brief", ROW, 0.0), 0.0)
    scheduler.set_brief("brief", is_brief=True)
    scheduler.submit(make_job("large"), 0.0)
    earlier, job = make_job("large"), Job("brief", ROW, 0.0)
    for waiting in (earlier, job):
        assert started(scheduler.submit(waiting, 0.0)) == []
    assert scheduler.next_wake == 0.01
    assert scheduler.wake(0.01) == []
    assert scheduler.next_wake is None
    assert started(scheduler.report("large", 0, DONE, 0.02)) == [job, earlier]


def test_a_model_is_charged_for_a_run_from_when_that_began_and_not_for_its_wait_to_begin() -> None:
    scheduler = Scheduler(8, 1, "CPU")
    for model in ("waited", "ran"):
        scheduler.add_model(model, 1)
    waited, ran = make_job("waited"), make_job("ran")
    scheduler.submit(waited, 0.0)
    scheduler.report("waited", 0, DONE, 3.0, began_at=2.0)
    scheduler.submit(ran, 3.0)
    jobs = [make_job(model, 3.0) for model in ("ran", "waited")]
    for job in jobs:
        scheduler.submit(job, 3.0)
    assert started(scheduler.report("ran", 0, DONE, 5.0)) == [jobs[1]]
    assert waited.timings == Timings(queue_s=2.0, inference_s=1.0, total_s=3.0)
    assert waited.started_at == 2.0
