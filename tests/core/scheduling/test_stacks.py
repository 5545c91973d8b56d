"""Executions that are one job are told apart as they were put together, whatever becomes of each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Apart, Job, JobState, Result, Timings, Work
from inferwire_server.core.scheduling.stacks import (
    DROPPED,
    count_ends,
    inference_shapes,
    is_whole,
    merge_results,
    results,
    split_into_executions,
    split_stack,
)
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

U8 = BY_NAME["u8"]
FAILURE = ServingError(Code.INFERENCE_FAILED, "no")
LATE = ServingError(Code.DEADLINE_EXCEEDED, "late")


def tensor(*values: int, rows: int) -> Tensor:
    return Tensor(U8, (rows, len(values) // rows), bytes(values))


def a_stack(count: int, rows: int = 1) -> Work:
    return Work((tensor(*range(2 * count * rows), rows=count * rows),), (0,), executions=count)


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


KINDS = tuple(BY_NAME[name] for name in ("u8", "u4", "u1", "string"))


@st.composite
def works(draw: st.DrawFn) -> list[Work]:
    """Draw single executions of equal shapes, of whole bytes each."""
    kind, rows, width = draw(st.sampled_from(KINDS)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
    shape = (rows, width, 8) if kind.is_packed else (rows, width)
    texts = st.lists(st.binary(max_size=3), min_size=rows * width, max_size=rows * width).map(strings.pack)
    size = 0 if kind.is_string else kind.byte_size(shape)
    data = texts if kind.is_string else st.binary(min_size=size, max_size=size)
    return [Work((Tensor(kind, shape, each),), (0,)) for each in draw(st.lists(data, min_size=1, max_size=6))]


def stacked(singles: Sequence[Work]) -> Work:
    """Put executions merge_results, as a client does."""
    (first,) = singles[0].inputs
    data = b"".join(bytes(work.inputs[0].data) for work in singles)
    shape = (first.shape[0] * len(singles), *first.shape[1:])
    return Work((Tensor(first.element_type, shape, data),), (0,), executions=len(singles))


def plain(work: Work) -> tuple[tuple[int, ...], bytes, int]:
    (tensor,) = work.inputs
    return tensor.shape, bytes(tensor.data), work.executions


@given(works(), st.integers(1, 7))
def test_a_stack_comes_apart_as_it_was_put_together(singles: list[Work], size: int) -> None:
    whole = stacked(singles)
    assert [plain(work) for work in split_into_executions(whole)] == [plain(work) for work in singles]
    expected = [stacked(singles[start : start + size]) for start in range(0, len(singles), size)]
    assert [plain(work) for work in split_stack(whole, size)] == [plain(work) for work in expected]


@given(works())
def test_what_each_gave_is_put_together_and_told_apart_again(singles: list[Work]) -> None:
    outcome = merge_results([work.inputs for work in singles])
    assert isinstance(outcome, tuple)
    job = ended(len(singles), outcome)
    assert is_whole(job)
    assert [values(result) for result in results(job)] == [values(work.inputs) for work in singles]


def test_rows_that_share_bytes_come_apart_where_executions_do_not() -> None:
    u4 = BY_NAME["u4"]
    whole = Work((Tensor(u4, (4, 3), bytes(range(6))),), (0,), executions=2)
    assert [plain(work) for work in split_into_executions(whole)] == [((2, 3), b"\0\1\2", 1), ((2, 3), b"\3\4\5", 1)]


@pytest.mark.parametrize(
    "given",
    [
        (FAILURE, (tensor(1, rows=1),)),
        ((tensor(1, rows=1),), (tensor(1, 2, rows=2),)),
        ((Tensor(U8, (), b"1"),), (Tensor(U8, (), b"2"),)),
        ((Tensor(BY_NAME["u4"], (1, 3), b"12"),), (Tensor(BY_NAME["u4"], (1, 3), b"34"),)),
    ],
)
def test_what_cannot_be_put_together_stays_apart(given: tuple[Result, ...]) -> None:
    assert merge_results(given) == Apart(given)


def test_a_lone_execution_gives_what_it_gave() -> None:
    assert merge_results([FAILURE]) is FAILURE
    assert merge_results([(), ()]) == ()


def test_executions_that_ran_one_by_one_waited_for_those_before_them() -> None:
    job = Job("m", a_stack(4)._replace(one_by_one=True), submitted_at=1.0)
    job.start(2.0)
    job.finish((), 4.0)
    assert job.timings == Timings(queue_s=2.5, inference_s=0.5, total_s=3.0)


def test_outputs_of_all_are_each_one_s_rows() -> None:
    job = ended(3, (tensor(1, 2, 3, rows=3), tensor(*range(6), rows=6)))
    assert is_whole(job)
    assert [values(result) for result in results(job)] == [[1, 0, 1], [2, 2, 3], [3, 4, 5]]
    assert count_ends(job) == {JobState.FINISHED: 3}


def test_an_error_of_all_is_each_one_s() -> None:
    job = ended(3, LATE)
    assert list(results(job)) == [LATE] * 3
    assert count_ends(job) == {JobState.EXPIRED: 3}


def test_outputs_of_no_port_are_nothing_for_each() -> None:
    assert list(results(ended(2, ()))) == [(), ()]


def test_a_dropped_execution_has_no_outputs_and_the_others_theirs() -> None:
    job = ended(3, (tensor(1, 2, 3, rows=3),), dropped=(1,))
    assert not is_whole(job)
    assert [values(result) for result in results(job)] == [[1], DROPPED, [3]]
    assert count_ends(job) == {JobState.FINISHED: 2, JobState.CANCELLED: 1}


def test_executions_that_ran_one_by_one_have_what_each_gave() -> None:
    job = ended(4, Apart(((tensor(1, rows=1),), FAILURE, (tensor(3, rows=1),), LATE)), dropped=(2,))
    assert not is_whole(job)
    assert [values(result) for result in results(job)] == [[1], FAILURE, DROPPED, LATE]
    assert count_ends(job) == {
        JobState.FINISHED: 1,
        JobState.FAILED: 1,
        JobState.CANCELLED: 1,
        JobState.EXPIRED: 1,
    }


def test_a_job_of_one_execution_is_told_as_it_is() -> None:
    job = ended(1, (tensor(7, rows=1),))
    assert [values(result) for result in results(job)] == [[7]]
    assert count_ends(job) == {JobState.FINISHED: 1}


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


def test_the_shapes_of_an_inference_have_the_rows_of_all_its_work() -> None:
    one, three = tensor(*range(2), rows=1), tensor(*range(6), rows=3)
    assert inference_shapes([Work((one, one), (0,))]) == ((1, 2), (1, 2))
    assert inference_shapes([Work((one,), (0,)), Work((three,), (0,))]) == ((4, 2),)
    assert inference_shapes([Work((three,), (0,), executions=3)]) == ((3, 2),)
    assert inference_shapes([Work((three,), (0,), executions=3, one_by_one=True)]) == ((1, 2),)
    assert inference_shapes([Work((Tensor(U8, (), b"1"),), (0,), one_by_one=True)]) == ((),)
