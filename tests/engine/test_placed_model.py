"""What a slot ran is counted as the inferences that gave something, by their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.engine.conftest import run_to_end

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.scheduling.tally import Durations, Tally
from inferwire_server.core.states import ResetStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.engine.placed_model import PlacedModel
from inferwire_server.engine.slot_runs import SlotRun
from inferwire_server.errors import ServingError

BATCHING = Batching(8)
CANCELLED = ServingError(Code.CANCELLED, "cancelled by the test")
TOOK_S = 6.0


def a_job(*fills: int, rows: int = 1, one_by_one: bool = False) -> Job:
    """Make a stack of an execution for each fill; the fill 0 is one that no run gets through with."""
    data = b"".join(bytes([fill]) * 16 * rows for fill in fills)
    tensor = Tensor(BY_NAME["f32"], (rows * len(fills), 4), data)
    return Job("m", Work((tensor,), (0,), executions=len(fills), one_by_one=one_by_one), 0.0)


def choke(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    if 0 in bytes(inputs[0].data):
        raise ServingError(Code.INFERENCE_FAILED, "no")
    return tuple(inputs)


def counted(*jobs: Job, batching: Batching | None = None) -> Mapping[int, Durations]:
    """Give what is counted of one run of these jobs, which took six seconds."""
    placed = PlacedModel(None, batching, Tally())
    run = SlotRun(FakeModel(echo_spec("m"), choke).create_slot(), jobs)
    run_to_end(run)
    placed.count_run(run, TOOK_S)
    return placed.tally.runs


@pytest.mark.parametrize("batching", [None, BATCHING])
def test_an_inference_is_counted_if_it_gave_something(batching: Batching | None) -> None:
    assert counted(a_job(1), batching=batching) == {1: Durations(1, TOOK_S)}
    assert counted(a_job(0), batching=batching) == {}


def test_rows_are_told_apart_only_where_they_may_run_together() -> None:
    assert counted(a_job(1, rows=3)) == {1: Durations(1, TOOK_S)}
    assert counted(a_job(1, rows=3), batching=BATCHING) == {3: Durations(1, TOOK_S)}
    assert counted(a_job(1, rows=9), batching=BATCHING) == {8: Durations(1, TOOK_S)}


def test_what_ran_together_is_one_inference_of_all_its_rows() -> None:
    assert counted(a_job(1, 2), a_job(3, rows=2), batching=BATCHING) == {4: Durations(1, TOOK_S)}


def test_looking_at_states_is_no_inference() -> None:
    assert counted(Job("m", Work((), (), states=ResetStates()), 0.0)) == {}


def test_of_a_stack_that_runs_one_by_one_those_count_that_gave_something() -> None:
    assert counted(a_job(1, 2, 3, one_by_one=True)) == {1: Durations(3, TOOK_S)}
    assert counted(a_job(1, 0, 3, one_by_one=True)) == {1: Durations(2, TOOK_S)}
    assert counted(a_job(0, 0, 0, one_by_one=True)) == {}


def test_what_was_dropped_before_it_ran_is_not_counted() -> None:
    stack = a_job(1, 2, 3, one_by_one=True)
    for position in (0, 2):
        stack.drop(position)
    assert counted(stack) == {1: Durations(1, TOOK_S)}


def test_what_failed_together_and_ran_apart_is_counted_as_it_ran() -> None:
    jobs = [a_job(1, 2), a_job(3, rows=2), a_job(0), a_job(4, 0)]
    assert counted(*jobs, batching=BATCHING) == {1: Durations(3, 4.5), 2: Durations(1, 1.5)}
    assert counted(a_job(0), a_job(0), batching=BATCHING) == {}


def test_a_job_that_was_cancelled_before_its_run_is_no_part_of_it() -> None:
    gone = a_job(1, 2)
    gone.end(CANCELLED, 1.0)
    assert counted(gone, a_job(3), a_job(4), batching=BATCHING) == {2: Durations(1, TOOK_S)}
