"""What callers want made of their outputs is made on the slot's thread, of each job's own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.engine.conftest import run_to_end

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Job, Outcome, Transform, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.engine.slot_runs import SlotRun
from inferwire_server.errors import ServingError

CANCELLED = ServingError(Code.CANCELLED, "cancelled by the test")
REFUSED = ServingError(Code.INVALID_INPUT, "refused by the test")


def row(fill: int) -> Tensor:
    return Tensor(BY_NAME["f32"], (1, 4), bytes([fill]) * 16)


def shouted(tensor: Tensor) -> Tensor:
    return tensor._replace(data=bytes(tensor.data) + b"!")


def refuse(_: Tensor) -> Tensor:
    raise REFUSED


def a_job(fill: int, transform: Transform | None) -> Job:
    return Job("echo", Work((row(fill),), (0,), transforms=(transform,)), 0.0)


def outcomes(*jobs: Job, model: FakeModel | None = None) -> Sequence[Outcome]:
    return run_to_end(SlotRun((model or FakeModel(echo_spec("echo"))).create_slot(), jobs))


@pytest.mark.parametrize("count", [1, 2], ids=["alone", "as one batch"])
def test_each_job_has_its_own_made_of_its_own(count: int) -> None:
    jobs = [a_job(1, shouted), a_job(2, None)][:count]
    assert outcomes(*jobs) == [(shouted(row(1)),), (row(2),)][:count]


def test_one_that_cannot_be_made_fails_its_own_job_alone() -> None:
    assert outcomes(a_job(1, refuse)) == [REFUSED]
    assert outcomes(a_job(1, shouted), a_job(2, refuse), a_job(3, shouted)) == [
        (shouted(row(1)),),
        REFUSED,
        (shouted(row(3)),),
    ]


@pytest.mark.parametrize("count", [1, 2], ids=["alone", "as one batch"])
def test_nothing_is_made_for_a_job_that_was_cancelled_on_the_way(count: int) -> None:
    jobs = [a_job(1, refuse), a_job(2, shouted)][:count]

    def cancel_first(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        jobs[0].end(CANCELLED, 1.0)
        return inputs

    model = FakeModel(echo_spec("echo"), compute=lambda inputs: tuple(cancel_first(inputs)))
    assert outcomes(*jobs, model=model) == [CANCELLED, (shouted(row(2)),)][:count]


def held_by(outcome: Outcome) -> list[int]:
    """Say how many bytes each output keeps in memory."""
    assert isinstance(outcome, tuple), outcome
    return [memoryview(memoryview(output.data).obj).nbytes for output in outcome]


def test_outputs_that_are_kept_hold_no_memory_of_what_ran_with_them() -> None:
    outputs, cases = (1, 0), ((1, (1,)), (3, ()), (5, (1, 0)))
    works = [Work((row(fill), row(fill + 1)), outputs, copied=copied) for fill, copied in cases]
    given = outcomes(*[Job("echo", work, 0.0) for work in works])
    assert [held_by(outcome) for outcome in given] == [[16, 48], [48, 48], [16, 16]]
    assert given == [(row(fill + 1), row(fill)) for fill in (1, 3, 5)]


def test_what_is_made_of_an_output_that_is_kept_is_as_it_was_made() -> None:
    works = [Work((row(fill),), (0,), transforms=(shouted,), copied=(0,)) for fill in (1, 2)]
    given = outcomes(*[Job("echo", work, 0.0) for work in works])
    assert given == [(shouted(row(1)),), (shouted(row(2)),)]
    assert [held_by(outcome) for outcome in given] == [[17], [17]]
