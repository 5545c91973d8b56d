"""Which inferences run on the loop: those of shapes that have shown to be brief."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.states import ReadStates, StateAccess
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.brief_slot import (
    BRIEF_S,
    ENDURABLE_S,
    MOST_SHAPES,
    PROMISING_S,
    SENT_AWAY,
    STRIKES,
    TRIALS,
    BriefSlot,
    Where,
)
from inferwire_server.errors import ServingError

LAYERS = (LayerTime("a", "Add", "ref"),)


class TimedSlot:
    """A slot whose inferences take as long as a test says, by the clock it gives."""

    def __init__(self) -> None:
        self.takes_s = BRIEF_S / 2
        self.now = 0.0
        self.is_cancelled = False
        self.is_failing = False

    def clock(self) -> float:
        return self.now

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        self.now += self.takes_s
        if self.is_failing:
            raise ServingError(Code.INFERENCE_FAILED, "failed")
        return tuple(inputs)

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        return (row(3),)

    def cancel(self) -> None:
        self.is_cancelled = True

    def profile(self) -> tuple[LayerTime, ...]:
        return LAYERS


def row(width: int) -> Tensor:
    return Tensor(BY_NAME["f32"], (1, width), bytes(4 * width))


@pytest.fixture
def timed() -> TimedSlot:
    return TimedSlot()


@pytest.fixture
def brief(timed: TimedSlot) -> BriefSlot:
    return BriefSlot(timed, timed.clock)


def run(brief: BriefSlot, width: int = 4) -> Where:
    """Run an inference wherever it is to run."""
    tensor = row(width)
    where = brief.begin((tensor.shape,))
    if where is not Where.THREAD:
        assert brief.run([tensor], [0]) == (tensor,)
    brief.end(where)
    return where


def test_a_shape_is_tried_on_a_thread_before_it_runs_on_the_loop(brief: BriefSlot) -> None:
    assert [run(brief) for _ in range(TRIALS + 2)] == [Where.TRIAL] * TRIALS + [Where.LOOP] * 2


def test_each_shape_is_tried_by_itself(brief: BriefSlot, timed: TimedSlot) -> None:
    brief.try_out([row(4)], [0])
    timed.takes_s = 2 * PROMISING_S
    brief.try_out([row(9)], [0])
    assert run(brief, 9) is Where.THREAD
    assert run(brief, 4) is Where.LOOP
    assert repr(brief) == "<BriefSlot: 1/2 shapes are brief>"


def test_what_the_first_inference_of_a_shape_takes_does_not_count(brief: BriefSlot, timed: TimedSlot) -> None:
    timed.takes_s = 100 * PROMISING_S
    run(brief)
    timed.takes_s = BRIEF_S / 2
    found = [run(brief) for _ in range(TRIALS)]
    assert found[-1] is Where.LOOP


def test_a_first_inference_that_was_lucky_does_not_count_either(brief: BriefSlot, timed: TimedSlot) -> None:
    run(brief)
    timed.takes_s = 2 * PROMISING_S
    assert [run(brief) for _ in range(TRIALS)] == [Where.TRIAL] * (TRIALS - 1) + [Where.THREAD]


def test_some_inferences_may_take_long_but_not_many_in_a_row(brief: BriefSlot, timed: TimedSlot) -> None:
    brief.try_out([row(4)], [0])
    for takes_s, count in ((9 * BRIEF_S, STRIKES - 1), (BRIEF_S / 2, 1), (9 * BRIEF_S, STRIKES)):
        timed.takes_s = takes_s
        assert [run(brief) for _ in range(count)] == [Where.LOOP] * count
    assert run(brief) is Where.THREAD


def test_one_that_holds_the_loop_up_is_enough(brief: BriefSlot, timed: TimedSlot) -> None:
    brief.try_out([row(4)], [0])
    timed.takes_s = 2 * ENDURABLE_S
    assert [run(brief) for _ in range(2)] == [Where.LOOP, Where.THREAD]


def fail(brief: BriefSlot, timed: TimedSlot, width: int = 4) -> Where:
    """Run an inference that fails, wherever it is to run but in a slot of its own."""
    timed.is_failing = True
    where = brief.begin(((1, width),))
    with pytest.raises(ServingError, match="failed"):
        brief.run([row(width)], [0])
    brief.end(where)
    timed.is_failing = False
    return where


def test_a_shape_that_fails_on_the_loop_is_tried_on_a_thread_anew(brief: BriefSlot, timed: TimedSlot) -> None:
    brief.try_out([row(4)], [0])
    assert fail(brief, timed) is Where.LOOP
    assert [run(brief) for _ in range(TRIALS + 2)] == [*[Where.TRIAL] * (TRIALS + 1), Where.LOOP]


def test_after_a_failure_no_shape_runs_on_the_loop_until_one_has_succeeded_elsewhere(
    brief: BriefSlot, timed: TimedSlot
) -> None:
    brief.try_out([row(4)], [0])
    brief.try_out([row(9)], [0])
    begun = brief.begin(((1, 9),))
    assert [fail(brief, timed), brief.has_failed] == [Where.LOOP, True]
    assert run(brief, 9) is Where.THREAD
    brief.end(begun)
    assert [fail(brief, timed, 9), brief.has_failed] == [Where.TRIAL, True]
    assert [run(brief, 9) for _ in range(TRIALS + 2)] == [*[Where.TRIAL] * (TRIALS + 1), Where.LOOP]
    assert not brief.has_failed


def test_what_the_first_inference_after_a_failure_takes_does_not_count(brief: BriefSlot, timed: TimedSlot) -> None:
    brief.try_out([row(4)], [0])
    brief.try_out([row(9)], [0])
    fail(brief, timed, 9)
    timed.takes_s = 2 * ENDURABLE_S
    assert run(brief) is Where.TRIAL
    timed.takes_s = BRIEF_S / 2
    assert run(brief) is Where.LOOP


def test_a_shape_that_was_sent_away_is_tried_again_later(brief: BriefSlot, timed: TimedSlot) -> None:
    timed.takes_s = 2 * PROMISING_S
    brief.try_out([row(4)], [0])
    timed.takes_s = BRIEF_S
    found = [run(brief) for _ in range(SENT_AWAY + TRIALS)]
    assert found == [Where.THREAD] * (SENT_AWAY - 1) + [Where.TRIAL] * TRIALS + [Where.LOOP]


def test_during_a_trial_everything_else_runs_in_slots_of_its_own(brief: BriefSlot) -> None:
    brief.try_out([row(4)], [0])
    trial = brief.begin(((1, 9),))
    assert trial is Where.TRIAL
    assert brief.begin(((1, 9),)) is Where.THREAD
    assert brief.begin(((1, 4),)) is Where.THREAD
    brief.end(Where.THREAD)
    assert brief.begin(((1, 4),)) is Where.THREAD
    brief.end(trial)
    assert brief.begin(((1, 4),)) is Where.LOOP


def test_no_trial_begins_while_the_loop_is_in_the_middle_of_something(brief: BriefSlot) -> None:
    brief.try_out([row(4)], [0])
    found = [brief.begin(((1, 4),)) for _ in range(2)]
    assert found == [Where.LOOP] * 2
    assert brief.begin(((1, 9),)) is Where.THREAD
    brief.end(found[0])
    assert brief.begin(((1, 9),)) is Where.THREAD
    brief.end(found[1])
    assert brief.begin(((1, 9),)) is Where.TRIAL


def test_the_shapes_used_last_are_known(brief: BriefSlot) -> None:
    for width in range(MOST_SHAPES):
        brief.try_out([row(width)], [0])
    assert run(brief, 0) is Where.LOOP
    brief.try_out([row(MOST_SHAPES)], [0])
    assert run(brief, 0) is Where.LOOP
    assert run(brief, 1) is Where.TRIAL


def test_the_rest_is_the_slots_own(brief: BriefSlot, timed: TimedSlot) -> None:
    assert brief.access(ReadStates(())) == (row(3),)
    assert brief.profile() == LAYERS
    brief.cancel()
    assert timed.is_cancelled
