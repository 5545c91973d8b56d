"""The time of each layer reaches the jobs that asked for it, and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tests.engine.conftest import run_to_end

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.layers import LayerStatus, LayerTime
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, echo, echo_spec
from inferwire_server.engine.slot_runs import SlotRun
from inferwire_server.errors import ServingError

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))
RAN = (LayerTime("echo", "Fake", "python", LayerStatus.EXECUTED, 7, 5),)


def a_job(*, is_profiled: bool) -> Job:
    return Job("echo", Work((ROW,), (0,), is_profiled=is_profiled), 0.0)


def fail(_: Sequence[Tensor]) -> tuple[Tensor, ...]:
    raise ServingError(Code.INFERENCE_FAILED, "broken by the test")


@pytest.mark.parametrize("compute", [echo, fail])
@pytest.mark.parametrize("count", [1, 2], ids=["alone", "as one batch"])
def test_those_that_asked_get_the_profile_however_the_run_ends(
    compute: Callable[[Sequence[Tensor]], tuple[Tensor, ...]], count: int
) -> None:
    jobs = tuple(a_job(is_profiled=True) for _ in range(count))
    run_to_end(SlotRun(FakeModel(echo_spec("echo"), compute).create_slot(), jobs))
    assert [job.profile for job in jobs] == [RAN] * count


def test_those_that_did_not_ask_get_none_of_a_batch() -> None:
    jobs = (a_job(is_profiled=True), a_job(is_profiled=False))
    run_to_end(SlotRun(FakeModel(echo_spec("echo")).create_slot(), jobs))
    assert [job.profile for job in jobs] == [RAN, ()]
