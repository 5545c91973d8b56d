"""A job's states, times and what it keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Job, JobState, Timings, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

TENSOR = Tensor(BY_NAME["u8"], (1,), b"\1")
FAILURE = ServingError(Code.INFERENCE_FAILED, "no")


def a_job() -> Job:
    return Job("m", Work((TENSOR,), (0,)), 10.0)


def finished() -> Job:
    job = a_job()
    job.start(12.0)
    job.finish((TENSOR,), 15.0)
    return job


def failed(error: ServingError = FAILURE) -> Job:
    job = a_job()
    job.end(error, 13.0)
    return job


def test_a_finished_job_gives_its_outputs_and_times() -> None:
    job = finished()
    assert job.state is JobState.FINISHED
    assert job.result() == (TENSOR,)
    assert job.timings == Timings(queue_s=2.0, inference_s=3.0, total_s=5.0)


def test_a_job_that_never_ran_spent_all_its_time_in_the_queue() -> None:
    assert failed().timings == Timings(queue_s=3.0, inference_s=0.0, total_s=3.0)


def test_a_job_that_has_not_ended_has_no_times() -> None:
    job = a_job()
    job.start(12.0)
    assert job.timings == Timings()


def test_a_failed_job_raises_why() -> None:
    error = ServingError(Code.QUEUE_FULL, "full", retry_after_s=2.0)
    with pytest.raises(ServingError) as caught:
        failed(error).result()
    told = caught.value
    assert (told.code, told.message, str(told), told.retry_after_s) == (Code.QUEUE_FULL, "full", "full", 2.0)
    assert told.is_of_job
    assert not error.is_of_job


def test_a_failed_job_keeps_nothing_of_those_who_looked_at_it() -> None:
    job = failed(ServingError(Code.INFERENCE_FAILED, "no"))
    assert job.error is not None
    for _ in range(2):
        with pytest.raises(ServingError, match="no"):
            job.result()
        assert job.error.__traceback__ is None


def test_outputs_that_are_kept_elsewhere_are_those_of_a_finished_job() -> None:
    job, kept = finished(), TENSOR._replace(data=b"", stored_as=7)
    job.keep((kept,))
    assert job.result() == (kept,)
    for other, outputs in ((job, (kept, kept)), (a_job(), ()), (failed(), ())):
        with pytest.raises(AssertionError, match=f"has no {len(outputs)} outputs to keep elsewhere; this is a bug"):
            other.keep(outputs)


def test_a_result_before_the_end_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="<Job on m: queued> was asked for before its end; this is a bug"):
        a_job().result()


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (Code.CANCELLED, JobState.CANCELLED),
        (Code.DEADLINE_EXCEEDED, JobState.EXPIRED),
        (Code.INFERENCE_FAILED, JobState.FAILED),
        (Code.MODEL_NOT_READY, JobState.FAILED),
    ],
)
@pytest.mark.parametrize("is_running", [False, True])
def test_the_code_of_its_error_says_how_it_ended(code: Code, state: JobState, is_running: bool) -> None:
    job = a_job()
    if is_running:
        job.start(11.0)
    job.end(ServingError(code, "why"), 12.0)
    assert job.state is state
    assert job.state.is_terminal


def test_only_ends_are_terminal() -> None:
    assert {state for state in JobState if not state.is_terminal} == {JobState.QUEUED, JobState.RUNNING}


@pytest.mark.parametrize("made", [finished, failed])
def test_an_ended_job_lets_its_inputs_go(made: Callable[[], Job]) -> None:
    assert made().work.inputs == ()


@pytest.mark.parametrize("made", [finished, failed])
def test_an_ended_job_changes_no_more(made: Callable[[], Job]) -> None:
    job = made()
    before = (job.state, job.ended_at, job.outputs, job.error)
    with pytest.raises(AssertionError, match="cannot become running"):
        job.start(20.0)
    with pytest.raises(AssertionError, match="cannot become finished"):
        job.finish((), 20.0)
    with pytest.raises(AssertionError, match="cannot become failed"):
        job.end(FAILURE, 20.0)
    assert (job.state, job.ended_at, job.outputs, job.error) == before


def test_a_queued_job_cannot_finish_and_stays_queued() -> None:
    job = a_job()
    with pytest.raises(AssertionError, match="cannot become finished"):
        job.finish((), 11.0)
    assert job.state is JobState.QUEUED


def test_jobs_are_told_apart_by_identity() -> None:
    assert a_job() != a_job()
    assert len({a_job(), a_job()}) == 2
