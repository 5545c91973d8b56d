"""Executions that are one job are told apart as they were put together, whatever becomes of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.batching import Batching
from inferwire_server.core.job import Apart, Job, JobState, Result, Work
from inferwire_server.core.stacks import DROPPED, ends, executions, is_whole, may_be_one_job, results
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

U8 = BY_NAME["u8"]
FAILURE = ServingError(Code.INFERENCE_FAILED, "no")
LATE = ServingError(Code.DEADLINE_EXCEEDED, "late")


def tensor(*values: int, rows: int) -> Tensor:
    return Tensor(U8, (rows, len(values) // rows), bytes(values))


def a_stack(count: int, rows: int = 1) -> Work:
    return Work((tensor(*range(2 * count * rows), rows=count * rows),), (0,), count=count)


def ended(count: int, outcome: Result | Apart, dropped: tuple[int, ...] = ()) -> Job:
    job = Job("m", a_stack(count), submitted_at=0.0)
    job.start(0.0)
    for position in dropped:
        job.drop(position)
    if isinstance(outcome, ServingError):
        job.end(outcome, 1.0)
    else:
        job.finish(outcome, 1.0)
    return job


def values(result: Result) -> list[int] | ServingError:
    return result if isinstance(result, ServingError) else [value for output in result for value in bytes(output.data)]


@given(st.integers(1, 5), st.integers(1, 3))
def test_the_executions_of_work_have_its_rows_in_their_order(count: int, rows: int) -> None:
    works = executions(a_stack(count, rows))
    assert [work.inputs[0].shape for work in works] == [(rows, 2)] * count
    assert b"".join(bytes(work.inputs[0].data) for work in works) == bytes(range(2 * count * rows))
    assert {work.count for work in works} == {1}


def test_work_of_one_execution_is_that_execution() -> None:
    work = a_stack(1)
    assert executions(work) == [work]


@pytest.mark.parametrize(
    ("work", "batching", "may"),
    [
        (a_stack(4), Batching(4), True),
        (a_stack(4), Batching(3), False),
        (a_stack(2, rows=2), Batching(3), False),
        (a_stack(4), None, False),
        (Work(a_stack(4).inputs, (0,), is_profiled=True, count=4), Batching(4), False),
        (Work((Tensor(U8, (0, 2), b""),), (0,), count=4), Batching(4), False),
        (Work((), (0,), count=4), Batching(4), False),
    ],
)
def test_a_stack_is_one_job_where_the_model_runs_so_many_rows_together(
    work: Work, batching: Batching | None, may: bool
) -> None:
    assert may_be_one_job(work, batching) is may


def test_outputs_of_all_are_each_one_s_rows() -> None:
    job = ended(3, (tensor(1, 2, 3, rows=3), tensor(*range(6), rows=3)))
    assert is_whole(job)
    assert [values(result) for result in results(job)] == [[1, 0, 1], [2, 2, 3], [3, 4, 5]]
    assert ends(job) == {JobState.FINISHED: 3}


def test_an_error_of_all_is_each_one_s() -> None:
    job = ended(3, LATE)
    assert list(results(job)) == [LATE] * 3
    assert ends(job) == {JobState.EXPIRED: 3}


def test_outputs_of_no_port_are_nothing_for_each() -> None:
    assert list(results(ended(2, ()))) == [(), ()]


def test_a_dropped_execution_has_no_outputs_and_the_others_theirs() -> None:
    job = ended(3, (tensor(1, 2, 3, rows=3),), dropped=(1,))
    assert not is_whole(job)
    assert [values(result) for result in results(job)] == [[1], DROPPED, [3]]
    assert ends(job) == {JobState.FINISHED: 2, JobState.CANCELLED: 1}


def test_executions_that_ran_one_by_one_have_what_each_gave() -> None:
    job = ended(4, Apart(((tensor(1, rows=1),), FAILURE, (tensor(3, rows=1),), LATE)), dropped=(2,))
    assert not is_whole(job)
    assert [values(result) for result in results(job)] == [[1], FAILURE, DROPPED, LATE]
    assert ends(job) == {
        JobState.FINISHED: 1,
        JobState.FAILED: 1,
        JobState.CANCELLED: 1,
        JobState.EXPIRED: 1,
    }


def test_a_job_of_one_execution_is_told_as_it_is() -> None:
    job = ended(1, (tensor(7, rows=1),))
    assert [values(result) for result in results(job)] == [[7]]
    assert ends(job) == {JobState.FINISHED: 1}


@pytest.mark.parametrize("position", [-1, 3])
def test_what_a_job_does_not_have_cannot_be_dropped(position: int) -> None:
    job = Job("m", a_stack(3), submitted_at=0.0)
    with pytest.raises(AssertionError, match="has no execution"):
        job.drop(position)


def test_nothing_is_dropped_of_what_has_ended() -> None:
    with pytest.raises(AssertionError, match="has no execution"):
        ended(3, FAILURE).drop(0)


def test_the_repr_of_a_stack_says_how_many() -> None:
    assert repr(Job("m", a_stack(3), submitted_at=0.0)) == "<Job on m: queued, 3 executions>"
