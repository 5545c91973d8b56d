"""A caller's states begin and go on as its own inferences say, whatever others' are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import openvino
import pytest
from openvino import opset6, opset13
from tests.openvino_backend.small_models import variable

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.states import ResetStates, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.slots import OpenVinoSlot
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model


def none_yet(data: Any) -> Any:
    return op.broadcast(op.constant(np.float32(0)), op.shape_of(data))


def doubled(data: Any) -> Any:
    return op.multiply(data, op.constant(np.float32(2)))


def multiplied(data: Any) -> Any:
    """Do the same by a product of matrices, which takes long where there are many."""
    return op.matmul(data, op.constant(2 * np.eye(2, dtype=np.float32)), False, False)


Start: TypeAlias = Callable[[Any], Any]


def adding_up(start: Start, path: Path) -> OpenVinoModel:
    """Compile a model whose state is the sum of its inputs, beginning with what `start` makes of the first one."""
    total, data = variable("sum", -1, 2), op.parameter([-1, 2], np.float32)
    before = opset6.read_value(start(data), total)
    before.output(0).get_tensor().set_names({"before"})
    after = op.add(before, data)
    results = [op.result(before), op.result(after)]
    openvino.save_model(make(results, [opset6.assign(after, total)], [data], "m"), path, compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    return OpenVinoBackend().compile(Source(path), options)


def rows(count: int, value: float) -> Tensor:
    return Tensor(BY_NAME["f32"], (count, 2), np.full((count, 2), value, np.float32).tobytes())


@pytest.mark.parametrize(("start", "begins_at"), [(none_yet, 0), (doubled, 2), (multiplied, 2)])
@pytest.mark.parametrize("keeps_states", [False, True])
def test_a_caller_s_state_begins_with_its_own_rows_whatever_another_s_has(
    start: Start, begins_at: float, keeps_states: bool, tmp_path: Path
) -> None:
    model = adding_up(start, tmp_path / "model.xml")
    assert sorted(model.spec.outputs[0].names) == ["before"]
    other = model.create_slot(keeps_states=True)
    other.run([rows(4, 1)], [0, 1])
    model.create_slot(keeps_states=keeps_states).run([rows(1, 1)], [0, 1])
    assert other.run([rows(4, 1)], [0, 1]) == (rows(4, begins_at + 1), rows(4, begins_at + 2))
    fresh = model.create_slot(keeps_states=keeps_states)
    assert fresh.run([rows(1, 1)], [0, 1]) == (rows(1, begins_at), rows(1, begins_at + 1))


def test_a_state_that_begins_turned_has_its_caller_s_rows_in_bf16(tmp_path: Path) -> None:
    data = op.parameter([1, -1, 8], np.float32)
    doubles = op.matmul(data, op.constant(2 * np.eye(8, dtype=np.float32)), False, False)
    turned = opset6.read_value(op.transpose(doubles, np.array([1, 0, 2])), "turned")
    squares = op.result(op.matmul(turned, turned, False, True))
    openvino.save_model(make([squares], [opset6.assign(turned, "turned")], [data], "m"), tmp_path / "model.xml")
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "bf16"})
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options)

    def square(slot: OpenVinoSlot, count: int) -> None:
        content = np.full((1, count, 8), count, np.float32)
        (found,) = slot.run([Tensor(BY_NAME["f32"], content.shape, content.tobytes())], [0])
        expected = np.full((count, 1, 1), 8 * (2 * count) ** 2, np.float32)
        assert (found.shape, found.data) == (expected.shape, expected.tobytes())

    short, long = model.create_slot(keeps_states=True), model.create_slot(keeps_states=True)
    for slot, count in ((short, 4), (long, 8), (short, 4), (model.create_slot(), 8)):
        square(slot, count)


def test_products_of_matrices_that_a_state_begins_with_are_computed_only_until_it_has_begun(tmp_path: Path) -> None:
    adding_up(multiplied, tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert "MatMul" in kinds(read_model(core, source))
    assert "MatMul" not in kinds(read_to_run(core, source))


def test_a_state_that_begins_with_products_of_matrices_is_written_and_reset_as_others(tmp_path: Path) -> None:
    model = adding_up(multiplied, tmp_path / "model.xml")
    assert list(model.spec.states) == ["sum"]
    slot = model.create_slot(keeps_states=True)
    slot.access(WriteStates((("sum", rows(3, 5)),)))
    assert slot.run([rows(3, 1)], [0, 1]) == (rows(3, 5), rows(3, 6))
    for names in (("sum",), ()):
        slot.access(ResetStates(names))
        assert slot.run([rows(1, 1)], [0, 1]) == (rows(1, 2), rows(1, 3))
        assert slot.run([rows(1, 4)], [0, 1]) == (rows(1, 3), rows(1, 7))


def test_such_a_state_is_as_it_was_after_an_inference_that_fails(tmp_path: Path) -> None:
    model = adding_up(multiplied, tmp_path / "model.xml")
    fresh, begun = model.create_slot(keeps_states=True), model.create_slot(keeps_states=True)
    assert begun.run([rows(4, 1)], [0, 1]) == (rows(4, 2), rows(4, 3))
    with pytest.raises(ServingError):
        begun.run([rows(3, 1)], [0, 1])
    assert begun.run([rows(4, 1)], [0, 1]) == (rows(4, 3), rows(4, 4))
    assert fresh.run([rows(3, 1)], [0, 1]) == (rows(3, 2), rows(3, 3))


def test_a_state_may_begin_with_products_of_another_state(tmp_path: Path) -> None:
    data = op.parameter([-1, 2], np.float32)
    first = opset6.read_value(doubled(data), "first")
    second = opset6.read_value(multiplied(first), "second")
    kept = [opset6.assign(op.add(first, data), "first"), opset6.assign(op.add(second, data), "second")]
    openvino.save_model(make([op.result(second)], kept, [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options)
    short, long = model.create_slot(keeps_states=True), model.create_slot(keeps_states=True)
    for value in (4, 5, 6):
        assert short.run([rows(2, 1)], [0]) == (rows(2, value),)
        assert long.run([rows(5, 1)], [0]) == (rows(5, value),)


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


def kinds(model: openvino.Model) -> list[str]:
    nodes: list[Any] = model.get_ordered_ops()
    return [node.get_type_name() for node in nodes]
