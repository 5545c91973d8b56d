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
from inferwire_server.engine.quick_slot import (
    BRIEF_S,
    ENDURABLE_S,
    MOST_SHAPES,
    PROMISING_S,
    SENT_AWAY,
    STRIKES,
    TRIALS,
    QuickSlot,
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
def quick(timed: TimedSlot) -> QuickSlot:
    return QuickSlot(timed, timed.clock)


def run(quick: QuickSlot, width: int = 4) -> Where:
    """Run an inference wherever it is to run."""
    tensor = row(width)
    where = quick.begin((tensor.shape,))
    if where is not Where.THREAD:
        assert quick.run([tensor], [0]) == (tensor,)
    quick.end(where)
    return where


def test_a_shape_is_tried_on_a_thread_before_it_runs_on_the_loop(quick: QuickSlot) -> None:
    assert [run(quick) for _ in range(TRIALS + 2)] == [Where.TRIAL] * TRIALS + [Where.LOOP] * 2


def test_each_shape_is_tried_by_itself(quick: QuickSlot, timed: TimedSlot) -> None:
    quick.try_out([row(4)], [0])
    timed.takes_s = 2 * PROMISING_S
    quick.try_out([row(9)], [0])
    assert run(quick, 9) is Where.THREAD
    assert run(quick, 4) is Where.LOOP
    assert repr(quick) == "<QuickSlot: 1/2 shapes are brief>"


def test_what_the_first_inference_of_a_shape_takes_does_not_count(quick: QuickSlot, timed: TimedSlot) -> None:
    timed.takes_s = 100 * PROMISING_S
    run(quick)
    timed.takes_s = BRIEF_S / 2
    found = [run(quick) for _ in range(TRIALS)]
    assert found[-1] is Where.LOOP


def test_a_first_inference_that_was_lucky_does_not_count_either(quick: QuickSlot, timed: TimedSlot) -> None:
    run(quick)
    timed.takes_s = 2 * PROMISING_S
    assert [run(quick) for _ in range(TRIALS)] == [Where.TRIAL] * (TRIALS - 1) + [Where.THREAD]


def test_some_inferences_may_take_long_but_not_many_in_a_row(quick: QuickSlot, timed: TimedSlot) -> None:
    quick.try_out([row(4)], [0])
    for takes_s, count in ((9 * BRIEF_S, STRIKES - 1), (BRIEF_S / 2, 1), (9 * BRIEF_S, STRIKES)):
        timed.takes_s = takes_s
        assert [run(quick) for _ in range(count)] == [Where.LOOP] * count
    assert run(quick) is Where.THREAD


def test_one_that_holds_the_loop_up_is_enough(quick: QuickSlot, timed: TimedSlot) -> None:
    quick.try_out([row(4)], [0])
    timed.takes_s = 2 * ENDURABLE_S
    assert [run(quick) for _ in range(2)] == [Where.LOOP, Where.THREAD]


def fail(quick: QuickSlot, timed: TimedSlot, width: int = 4) -> Where:
    """Run an inference that fails, wherever it is to run but in a slot of its own."""
    timed.is_failing = True
    where = quick.begin(((1, width),))
    with pytest.raises(ServingError, match="failed"):
        quick.run([row(width)], [0])
    quick.end(where)
    timed.is_failing = False
    return where


def test_a_shape_that_fails_on_the_loop_is_tried_on_a_thread_anew(quick: QuickSlot, timed: TimedSlot) -> None:
    quick.try_out([row(4)], [0])
    assert fail(quick, timed) is Where.LOOP
    assert [run(quick) for _ in range(TRIALS + 2)] == [*[Where.TRIAL] * (TRIALS + 1), Where.LOOP]


def test_after_a_failure_no_shape_runs_on_the_loop_until_one_has_succeeded_elsewhere(
    quick: QuickSlot, timed: TimedSlot
) -> None:
    quick.try_out([row(4)], [0])
    quick.try_out([row(9)], [0])
    begun = quick.begin(((1, 9),))
    assert [fail(quick, timed), quick.has_failed] == [Where.LOOP, True]
    assert run(quick, 9) is Where.THREAD
    quick.end(begun)
    assert [fail(quick, timed, 9), quick.has_failed] == [Where.TRIAL, True]
    assert [run(quick, 9) for _ in range(TRIALS + 2)] == [*[Where.TRIAL] * (TRIALS + 1), Where.LOOP]
    assert not quick.has_failed


def test_what_the_first_inference_after_a_failure_takes_does_not_count(quick: QuickSlot, timed: TimedSlot) -> None:
    quick.try_out([row(4)], [0])
    quick.try_out([row(9)], [0])
    fail(quick, timed, 9)
    timed.takes_s = 2 * ENDURABLE_S
    assert run(quick) is Where.TRIAL
    timed.takes_s = BRIEF_S / 2
    assert run(quick) is Where.LOOP


def test_a_shape_that_was_sent_away_is_tried_again_later(quick: QuickSlot, timed: TimedSlot) -> None:
    timed.takes_s = 2 * PROMISING_S
    quick.try_out([row(4)], [0])
    timed.takes_s = BRIEF_S
    found = [run(quick) for _ in range(SENT_AWAY + TRIALS)]
    assert found == [Where.THREAD] * (SENT_AWAY - 1) + [Where.TRIAL] * TRIALS + [Where.LOOP]


def test_during_a_trial_everything_else_runs_in_slots_of_its_own(quick: QuickSlot) -> None:
    quick.try_out([row(4)], [0])
    trial = quick.begin(((1, 9),))
    assert trial is Where.TRIAL
    assert quick.begin(((1, 9),)) is Where.THREAD
    assert quick.begin(((1, 4),)) is Where.THREAD
    quick.end(Where.THREAD)
    assert quick.begin(((1, 4),)) is Where.THREAD
    quick.end(trial)
    assert quick.begin(((1, 4),)) is Where.LOOP


def test_no_trial_begins_while_the_loop_is_in_the_middle_of_something(quick: QuickSlot) -> None:
    quick.try_out([row(4)], [0])
    found = [quick.begin(((1, 4),)) for _ in range(2)]
    assert found == [Where.LOOP] * 2
    assert quick.begin(((1, 9),)) is Where.THREAD
    quick.end(found[0])
    assert quick.begin(((1, 9),)) is Where.THREAD
    quick.end(found[1])
    assert quick.begin(((1, 9),)) is Where.TRIAL


def test_the_shapes_used_last_are_known(quick: QuickSlot) -> None:
    for width in range(MOST_SHAPES):
        quick.try_out([row(width)], [0])
    assert run(quick, 0) is Where.LOOP
    quick.try_out([row(MOST_SHAPES)], [0])
    assert run(quick, 0) is Where.LOOP
    assert run(quick, 1) is Where.TRIAL


def test_the_rest_is_the_slots_own(quick: QuickSlot, timed: TimedSlot) -> None:
    assert quick.access(ReadStates(())) == (row(3),)
    assert quick.profile() == LAYERS
    quick.cancel()
    assert timed.is_cancelled
