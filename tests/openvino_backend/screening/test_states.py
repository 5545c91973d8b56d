"""A caller's states go on as its own inferences say, whatever others' are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset6, opset13
from tests.openvino_backend.screening.small_sums import Start, adding_up, doubled, kinds, none_yet, rows
from tests.openvino_backend.small_models import variable

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.states import ResetStates, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model


def as_it_is(state: Any) -> Any:
    return state


def in_its_order(state: Any) -> Any:
    count = op.gather(op.shape_of(state), np.int64(0), np.int64(0))
    return op.gather(state, op.range(np.int64(0), count, np.int64(1), "i64"), np.int64(0))


def collecting(widths: Sequence[int], take: Callable[[Any], Any], begin: Callable[[Any], Any] = as_it_is) -> Any:
    """Make a model with a state for each of its inputs: all that it was given so far. They begin with nothing."""
    inputs, sinks, results = list[Any](), list[Any](), list[Any]()
    for number, width in enumerate(widths):
        kept, data = variable(f"state {number}", -1, -1, width), op.parameter([-1, -1, width], np.float32)
        inputs.append(data)
        batch = op.gather(op.shape_of(inputs[0]), np.array([0]), np.int64(0))
        nothing = op.broadcast(np.float32(0), op.concat([batch, np.array([0, width])], 0))
        collected = op.concat([take(opset6.read_value(begin(nothing), kept)), data], 1)
        sinks.append(opset6.assign(collected, kept))
        results.append(op.result(op.negative(collected)))
    return make(results, sinks, inputs, "m")


@pytest.mark.parametrize("widths", [[2], [2, 3]])
@pytest.mark.parametrize("take", [as_it_is, in_its_order])
def test_a_state_that_begins_with_nothing_does_so_for_every_caller(
    widths: Sequence[int], take: Callable[[Any], Any], tmp_path: Path
) -> None:
    openvino.save_model(collecting(widths, take), tmp_path / "model.xml", compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options)

    def steps(count: int, value: float) -> list[Tensor]:
        filled = [np.full((1, count, width), value, np.float32) for width in widths]
        return [Tensor(BY_NAME["f32"], content.shape, content.tobytes()) for content in filled]

    kept, every = model.create_slot(keeps_states=True), range(len(widths))
    for count, total in ((1, 1), (5, 6), (9, 15)):
        assert kept.run(steps(count, 1), every) == tuple(steps(total, -1))
    for slot in (model.create_slot(), model.create_slot(keeps_states=True)):
        assert slot.run(steps(1, 2), every) == tuple(steps(1, -2))
    kept.access(ResetStates())
    assert kept.run(steps(9, 3), every) == tuple(steps(9, -3))


def test_states_that_begin_with_the_same_nothing_are_left_as_they_are(tmp_path: Path) -> None:
    openvino.save_model(collecting([2, 2], as_it_is), tmp_path / "model.xml", compress_to_fp16=False)
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert kinds(read_to_run(core, source)) == kinds(read_model(core, source))


def added_up_again_and_again(value: Any) -> Any:
    for _ in range(1000):
        value = op.add(value, value)
    return value


def test_states_that_begin_with_the_same_long_sum_are_compared_in_no_time(tmp_path: Path) -> None:
    model = collecting([2, 2], as_it_is, added_up_again_and_again)
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert kinds(read_to_run(core, source)) == kinds(read_model(core, source))


def test_a_state_may_be_set_to_no_rows(tmp_path: Path) -> None:
    model = adding_up(none_yet, tmp_path / "model.xml")
    slot = model.create_slot(keeps_states=True)
    slot.run([rows(1, 1)], [1])
    slot.access(WriteStates((("sum", rows(0, 0)),)))
    assert slot.run([rows(1, 1)], [1]) == (rows(0, 0),)
    slot.access(ResetStates())
    assert slot.run([rows(1, 1)], [1]) == (rows(1, 1),)


def itself(data: Any) -> Any:
    return data


def in_pieces(data: Any) -> Any:
    halves = op.split(data, np.int64(1), 2)
    return op.concat([halves.output(0), halves.output(1)], 1)


def positive(data: Any) -> Any:
    return op.relu(data)


@pytest.mark.parametrize("start", [itself, positive, doubled])
@pytest.mark.parametrize("keep", [itself, in_pieces, positive])
@pytest.mark.parametrize("count", [-1, 3])
def test_a_state_that_is_the_last_input_is_read_before_it_is_replaced(
    start: Start, keep: Start, count: int, tmp_path: Path
) -> None:
    last_input, data = variable("last", count, 2), op.parameter([count, 2], np.float32)
    first = start(data)
    before = opset6.read_value(first, last_input)
    kept = first if keep is start else keep(data)
    results = [op.result(op.add(before, data)), op.result(op.negative(data))]
    model = make(results, [opset6.assign(kept, last_input)], [data], "m")
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options)
    slots = [model.create_slot(keeps_states=True), model.create_slot(keeps_states=True)]
    last = [0, 0]
    for value, number in enumerate((0, 1, 0, 0, 1), start=1):
        before_it = last[number] or value * (2 if start is doubled else 1)
        assert slots[number].run([rows(3, value)], [0, 1]) == (rows(3, before_it + value), rows(3, -value))
        last[number] = value


def test_a_loop_that_has_a_state_of_its_own_is_left_as_it_is(tmp_path: Path) -> None:
    total, row = variable("sum", 1, 2), op.parameter([1, 2], np.float32)
    after = op.add(opset6.read_value(op.constant(np.zeros((1, 2), np.float32)), total), row)
    body = make([op.result(after)], [opset6.assign(after, total)], [row])
    data, loop = op.parameter([-1, 2], np.float32), op.tensor_iterator()
    loop.set_body(body)
    loop.set_sliced_input(row, data.output(0), 0, 1, 1, -1, 0)
    given = loop.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 0)
    openvino.save_model(make([op.result(given)], [data], "m"), tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert kinds(read_to_run(core, source)) == kinds(read_model(core, source))
