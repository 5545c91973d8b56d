"""The numbers of one model: each job and each inference counted where it belongs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from inferwire_proto.errors import Code
from inferwire_server.bugs import logged_failure
from inferwire_server.core.scheduling.job import Apart, Job, Work
from inferwire_server.core.scheduling.tally import OUTCOMES, SECONDS_BUCKETS, Durations, Histogram, Tally
from inferwire_server.errors import ServingError

WORK = Work((), ())


@pytest.mark.parametrize(
    ("value", "counts"), [(0.0, [1, 0, 0]), (1.0, [1, 0, 0]), (1.5, [0, 1, 0]), (2.0, [0, 1, 0]), (2.5, [0, 0, 1])]
)
def test_a_value_lies_below_the_first_bound_that_it_does_not_exceed(value: float, counts: list[int]) -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(value)
    assert (histogram.counts, histogram.count, histogram.total) == (counts, 1, value)


def test_the_bounds_of_times_tell_a_long_wait_from_a_longer_one() -> None:
    """Large models take some ten seconds, and jobs for them wait for several of these."""
    histogram = Histogram(SECONDS_BUCKETS)
    for seconds in (0.00009, 11.0, 30.0, 60.0, 101.0):
        histogram.observe(seconds)
    assert histogram.counts[0] == 1
    assert histogram.counts[-4:] == [1, 1, 1, 1]
    assert all(1.9 < after / before < 2.6 for before, after in pairwise(SECONDS_BUCKETS))


def test_a_finished_job_is_counted_with_its_times() -> None:
    tally, job = Tally(), Job("m", WORK, submitted_at=1.0)
    job.start(1.25)
    job.finish((), 3.0)
    tally.end(job)
    assert tally.outcomes == {"finished": 1}
    assert (tally.queue.total, tally.inference.total, tally.total.total) == (0.25, 1.75, 2.0)
    assert (tally.failed_s, tally.last_finished_at) == (0.0, 3.0)
    assert tally.inference.counts[SECONDS_BUCKETS.index(2.5)] == 1


@pytest.mark.parametrize("is_started", [True, False])
def test_a_job_that_failed_is_counted_by_the_time_it_took_in_all(is_started: bool) -> None:
    tally, job = Tally(), Job("m", WORK, submitted_at=1.0)
    if is_started:
        job.start(1.5)
    job.end(ServingError(Code.CANCELLED, "not wanted"), 3.0)
    tally.end(job)
    assert tally.outcomes == {"cancelled": 1}
    assert (tally.queue.count, tally.inference.count, tally.total.count) == (int(is_started), 0, 0)
    assert (tally.failed_s, tally.last_finished_at) == (2.0, None)


@pytest.mark.parametrize("code", [Code.INVALID_INPUT, Code.TOO_LARGE])
def test_a_job_whose_input_proved_to_be_none_has_not_failed(code: Code) -> None:
    tally, job = Tally(), Job("m", WORK, submitted_at=1.0)
    job.start(1.5)
    job.end(ServingError(code, "no picture"), 3.0)
    tally.end(job)
    stack = Job("m", Work((), (), executions=2), submitted_at=1.0)
    stack.start(1.5)
    stack.finish(Apart(((), ServingError(code, "no picture"))), 3.0)
    tally.end(stack)
    assert tally.outcomes == {"invalid": 2, "finished": 1}
    assert set(tally.outcomes) <= set(OUTCOMES)


def test_a_job_for_which_the_server_lacks_memory_has_failed() -> None:
    tally, job = Tally(), Job("m", WORK, submitted_at=1.0)
    with capture_logs():
        job.end(logged_failure("a slot", MemoryError()), 3.0)
    tally.end(job)
    assert tally.outcomes == {"failed": 1}


def test_inferences_are_told_apart_by_their_rows() -> None:
    tally = Tally()
    for rows, seconds in ((1, 0.5), (4, 1.0), (1, 0.25)):
        tally.end_runs(rows, seconds)
    assert tally.runs == {1: Durations(2, 0.75), 4: Durations(1, 1.0)}


def test_a_stack_is_counted_as_its_executions() -> None:
    tally, job = Tally(), Job("m", Work((), (), executions=3), submitted_at=1.0)
    job.start(1.5)
    job.drop(1)
    job.finish(Apart(((), (), ServingError(Code.INFERENCE_FAILED, "no"))), 3.0)
    tally.end(job)
    assert tally.outcomes == {"finished": 1, "cancelled": 1, "failed": 1}
    assert (tally.queue.count, tally.inference.count, tally.total.count) == (3, 1, 1)
    assert (tally.queue.total, tally.failed_s) == (1.5, 4.0)
