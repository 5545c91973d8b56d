"""What loops and branches give is the caller's whose inference it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model


def compiled(outputs: Sequence[Any], inputs: Sequence[Any], path: Path) -> OpenVinoModel:
    model = make([op.result(output) for output in outputs], list(inputs), "m")
    openvino.save_model(model, path, compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    return OpenVinoBackend().compile(Source(path), options)


def sent(kind: str, values: Any) -> Tensor:
    return Tensor(BY_NAME[kind], values.shape, values.tobytes())


def read(tensor: Tensor) -> np.ndarray[Any, Any]:
    return np.frombuffer(tensor.data, np.float32).reshape(tensor.shape)


def one_by_one(data: Any) -> Any:
    """Negate the rows in a loop that the compiler cannot resolve: how many there are is left open."""
    row = op.parameter([1, 2], np.float32)
    body = make([op.result(op.negative(row))], [row])
    iterator = op.tensor_iterator()
    iterator.set_body(body)
    iterator.set_sliced_input(row, data.output(0), 0, 1, 1, -1, 0)
    return iterator.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 0)


def while_true(data: Any) -> Any:
    """Negate everything in a loop, once."""
    inside, goes_on = op.parameter([-1, 2], np.float32), op.constant(np.array(True))
    body = make([op.result(goes_on), op.result(op.negative(inside))], [inside])
    iterator = op.loop(op.constant(np.int32(1)), goes_on)
    iterator.set_function(body)
    iterator.set_special_body_ports([-1, 0])
    iterator.set_merged_input(inside, data.output(0), body.results[1].output(0))
    return iterator.get_iter_value(body.results[1].output(0), -1)


def softmax(data: Any) -> Any:
    return op.softmax(data, 0)


def softmax_behind_what_does_nothing(data: Any) -> Any:
    first = np.zeros(1, np.int64)
    return op.softmax(op.squeeze(op.unsqueeze(data, first), first), 0)


@pytest.mark.parametrize("iterate", [one_by_one, while_true])
@pytest.mark.parametrize("use", [softmax, softmax_behind_what_does_nothing])
def test_what_a_loop_gives_is_used_for_the_caller_whose_it_is(iterate: Any, use: Any, tmp_path: Path) -> None:
    data = op.parameter([-1, 2], np.float32)
    given = iterate(data)
    openvino.save_model(make([op.result(given), op.result(use(given))], [data], "m"), tmp_path / "model.xml")
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options)
    slots = [model.create_slot(), model.create_slot()]
    for number, (slot, length) in enumerate([(0, 1), (0, 2), (0, 2), (1, 2), (0, 2)]):
        content = np.random.default_rng(number).normal(size=(length, 2)).astype(np.float32)
        found = slots[slot].run([Tensor(BY_NAME["f32"], content.shape, content.tobytes())], [0, 1])
        shares = np.exp(-content) / np.exp(-content).sum(axis=0)
        np.testing.assert_array_equal(found[0].data, (-content).tobytes())
        np.testing.assert_allclose(np.frombuffer(found[1].data, np.float32), shares.ravel(), atol=1e-5)


def test_what_a_branch_gives_is_read_where_it_is(tmp_path: Path) -> None:
    data, takes_all = op.parameter([-1, 2], np.float32), op.parameter([], np.bool_)
    then_data, else_data = op.parameter([-1, 2], np.float32), op.parameter([-1, 2], np.float32)
    everything = make([op.result(op.reshape(then_data, np.array([-1]), False))], [then_data])
    most_of_each = make([op.result(op.reduce_max(else_data, np.array([1])))], [else_data])
    branch = op.if_op(takes_all.output(0))
    branch.set_then_body(everything)
    branch.set_else_body(most_of_each)
    branch.set_input(data.output(0), then_data, else_data)
    taken = op.negative(branch.set_output(everything.results[0], most_of_each.results[0]))
    beside = op.relu(op.transpose(data, np.array([1, 0])))
    slot = compiled([taken, beside], [data, takes_all], tmp_path / "model.xml").create_slot()
    for number, (length, takes) in enumerate([(3, False), (2, True), (2, False), (5, True)]):
        content = np.random.default_rng(number).normal(size=(length, 2)).astype(np.float32)
        (found,) = slot.run([sent("f32", content), sent("boolean", np.array(takes))], [0])
        np.testing.assert_array_equal(read(found), -(content.ravel() if takes else content.max(axis=1)))


def test_a_branch_whose_bodies_differ_in_dimensions_is_used_where_it_is_known_which_is_taken(tmp_path: Path) -> None:
    data = op.parameter([-1, 2], np.float32)
    then_data, else_data = op.parameter([-1, 2], np.float32), op.parameter([-1, 2], np.float32)
    flat = make([op.result(op.reshape(then_data, np.array([-1]), False))], [then_data])
    whole = make([op.result(op.relu(else_data))], [else_data])
    length, same = (op.gather(op.shape_of(each), np.int64(0), np.int64(0)) for each in (data, op.relu(data)))
    branch = op.if_op(op.not_equal(length, same).output(0))
    branch.set_then_body(flat)
    branch.set_else_body(whole)
    branch.set_input(data.output(0), then_data, else_data)
    taken = op.subtract(np.float32(1), branch.set_output(flat.results[0], whole.results[0]))
    content = np.ones((3, 2), np.float32)
    (found,) = compiled([taken], [data], tmp_path / "model.xml").create_slot().run([sent("f32", content)], [0])
    np.testing.assert_array_equal(read(found), np.zeros_like(content))


def all_of(words: Any) -> Any:
    return op.reshape(words, np.array([-1]), False)


def first_of(words: Any) -> Any:
    return op.gather(words, np.array([0]), 0)


def test_a_branch_gives_strings(tmp_path: Path) -> None:
    condition, data = op.parameter([], openvino.Type.boolean), op.parameter([-1], openvino.Type.string)
    bodies: list[Any] = []
    for take in (all_of, first_of):
        words = op.parameter([-1], openvino.Type.string)
        bodies.append(make([op.result(take(words))], [words]))
    either = op.if_op(condition.output(0))
    either.set_then_body(bodies[0])
    either.set_else_body(bodies[1])
    either.set_input(data.output(0), bodies[0].get_parameters()[0], bodies[1].get_parameters()[0])
    given = either.set_output(bodies[0].results[0], bodies[1].results[0])
    model = compiled([op.reshape(given, np.array([1, -1]), False)], [condition, data], tmp_path / "model.xml")
    words = Tensor(BY_NAME["string"], (2,), strings.pack([b"one", b"two"]))
    (found,) = model.create_slot().run([sent("boolean", np.array(True)), words], [0])
    assert (found.shape, found.data) == ((1, 2), words.data)


def counting(shape: Sequence[int], data: Any, turns: Any, goes_on: Any) -> tuple[Any, Any, Any]:
    """Add 1 in each turn; give the sum, twice the sum, and twice the sums of all turns."""
    inside, always = op.parameter(list(shape), np.float32), op.constant(np.array(True))
    total = op.add(inside, op.constant(np.float32(1)))
    twice = op.multiply(total, op.constant(np.float32(2)))
    loop = op.loop(turns, goes_on)
    loop.set_function(make([op.result(always), op.result(total), op.result(twice)], [inside]))
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(inside, data.output(0), total.output(0))
    last, doubled = loop.get_iter_value(total.output(0), -1), loop.get_iter_value(twice.output(0), -1)
    return last, doubled, loop.get_concatenated_slices(twice.output(0), 0, 1, 1, -1, 0)


@pytest.mark.parametrize(
    ("shape", "without_turn"),
    [([1, -1], (np.zeros((1, 0)), np.zeros((0, 0)))), ([1, 2], (np.zeros((1, 2)), np.zeros((0, 2))))],
)
def test_a_loop_that_takes_no_turn_gives_nothing_of_another_caller_s(
    shape: Sequence[int], without_turn: tuple[Any, Any], tmp_path: Path
) -> None:
    data = op.parameter(list(shape), np.float32)
    turns, goes_on = op.parameter([], np.int64), op.parameter([1], np.bool_)
    model = compiled(counting(shape, data, turns, goes_on), [data, turns, goes_on], tmp_path / "model.xml")
    slots = [model.create_slot(), model.create_slot()]
    content = np.array([[3, 4]], np.float32)
    for number, (count, begins) in enumerate([(0, True), (2, True), (0, True), (3, False), (1, True)]):
        given = [sent("f32", content), sent("i64", np.array(count)), sent("boolean", np.array([begins]))]
        last, doubled, each = map(read, slots[number % 2].run(given, [0, 1, 2]))
        taken = count if begins else 0
        np.testing.assert_array_equal(last, content + taken)
        expected = [2 * (content + turn + 1) for turn in range(taken)]
        np.testing.assert_array_equal(doubled, expected[-1] if expected else without_turn[0])
        np.testing.assert_array_equal(each, np.concatenate(expected) if expected else without_turn[1])


def test_a_loop_that_takes_some_turn_is_left_as_it_is(tmp_path: Path) -> None:
    data = op.parameter([1, 2], np.float32)
    given = counting([1, 2], data, op.constant(np.int64(3)), op.constant(np.array(True)))
    openvino.save_model(make([op.result(output) for output in given], [data], "m"), tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert len(read_to_run(core, source).get_ops()) == len(read_model(core, source).get_ops())


def grown(data: Any) -> Any:
    return op.concat([data, op.slice(data, *np.array([[0], [1], [1], [1]]))], 1)


def shrunk(data: Any) -> Any:
    return op.slice(data, *np.array([[1], [9], [1], [1]]))


def summing(step: Any, data: Any, turns: Any, in_iterator: bool) -> Any:
    """Step on in each turn; give the sums of what there was after each."""
    inside = op.parameter([2, -1], np.float32)
    stepped = step(inside)
    total = op.reduce_sum(stepped, np.array([1]), True)
    if in_iterator:
        turn = op.parameter([1], np.int64)
        loop = op.tensor_iterator()
        loop.set_body(make([op.result(stepped), op.result(op.add(total, op.convert(turn, "f32")))], [inside, turn]))
        numbers = op.multiply(op.range(np.int64(0), turns, np.int64(1), "i64"), np.int64(0))
        loop.set_sliced_input(turn, numbers.output(0), 0, 1, 1, -1, 0)
        given = loop.get_function().results[1]
    else:
        always = op.constant(np.array(True))
        loop = op.loop(turns, always)
        loop.set_function(make([op.result(always), op.result(stepped), op.result(total)], [inside]))
        loop.set_special_body_ports([-1, 0])
        given = loop.get_function().results[2]
    loop.set_merged_input(inside, data.output(0), stepped.output(0))
    return loop.get_concatenated_slices(given.output(0), 0, 1, 1, -1, 1)


@pytest.mark.parametrize("step", [grown, shrunk])
@pytest.mark.parametrize("in_iterator", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_what_a_loop_carries_may_have_another_shape_after_each_turn(
    step: Any, in_iterator: bool, is_known: bool, tmp_path: Path
) -> None:
    start = np.arange(8, dtype=np.float32).reshape(2, 4)
    turns = op.parameter([], np.int64)
    data = op.constant(start) if is_known else op.parameter([2, 4], np.float32)
    summed = summing(step, data, turns, in_iterator)
    inputs = [turns] if is_known else [data, turns]
    slot = compiled([summed], inputs, tmp_path / "model.xml").create_slot()
    for number, count in enumerate([3, 1, 2]):
        content = start if is_known else start + number
        given = [] if is_known else [sent("f32", content)]
        (found,) = slot.run([*given, sent("i64", np.array(count))], [0])
        expected: list[Any] = []
        for _ in range(count):
            content = np.concatenate([content, content[:, :1]], 1) if step is grown else content[:, 1:]
            expected.append(content.sum(axis=1, keepdims=True))
        np.testing.assert_array_equal(read(found), np.concatenate(expected, axis=1))


def fading(data: Any, kept: Any) -> Any:
    """Halve what is kept in each turn, and add a row of the data; give it behind the last one."""
    row, before, sums = (op.parameter(shape, np.float32) for shape in ([-1, 1, 16], [-1, 4, 16], [-1, -1, 16]))
    turn, always = op.parameter([], np.int32), op.constant(np.array(True))
    after = op.add(op.multiply(before, np.float32(0.5)), row)
    written = op.scatter_update(sums, op.unsqueeze(turn, np.array([0])), op.reduce_sum(after, np.array([1]), True), 1)
    given = [op.result(always), op.result(after), op.result(written)]
    loop = op.loop(op.gather(op.shape_of(data), np.int64(1), np.int64(0)), always)
    loop.set_function(make(given, [turn, row, before, sums]))
    loop.set_special_body_ports([0, 0])
    loop.set_sliced_input(row, data.output(0), 0, 1, 1, -1, 1)
    loop.set_merged_input(before, kept.output(0), given[1].output(0))
    loop.set_merged_input(sums, op.broadcast(np.float32(0), op.shape_of(data)).output(0), given[2].output(0))
    return loop.get_iter_value(given[1].output(0), -1)


def test_what_a_loop_gives_is_read_where_it_is_in_bf16(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    inner, outer = random.uniform(-0.3, 0.3, (2, 16, 16)).astype(np.float32)
    sent_rows = op.parameter([-1, -1, 16], np.float32)
    rows = op.matmul(sent_rows, op.constant(inner), False, True)
    batch = op.gather(op.shape_of(sent_rows), np.array([0]), np.int64(0))
    nothing = op.broadcast(np.float32(0), op.concat([batch, np.array([4, 16])], 0))
    kept = fading(rows, op.multiply(nothing, op.reduce_mean(rows, np.array([1]), True)))
    model = make([op.result(op.matmul(kept, op.constant(outer), False, True))], [sent_rows], "m")
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "bf16"})
    slot = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options).create_slot()
    for length in (5, 9, 3, 17, 1, 1):
        content = random.uniform(-1, 1, (1, length, 16)).astype(np.float32)
        (found,) = slot.run([sent("f32", content)], [0])
        faded = (0.5 ** np.arange(length)[::-1]) @ (content[0] @ inner.T)
        np.testing.assert_allclose(read(found), np.broadcast_to(faded @ outer.T, (1, 4, 16)), atol=0.05)


def test_a_branch_gives_an_empty_list_where_that_was_read_as_a_number(tmp_path: Path) -> None:
    data, inside = op.parameter([-1], np.float32), op.parameter([-1], np.float32)
    nothing = make([op.result(op.constant(np.int64(0)))], [])
    places = make([op.result(op.squeeze(op.non_zero(inside), np.array([0])))], [inside])
    branch = op.if_op(op.less(op.reduce_max(data, np.int64(0)), np.float32(0)).output(0))
    branch.set_then_body(nothing)
    branch.set_else_body(places)
    branch.set_input(data.output(0), None, inside)
    found = branch.set_output(nothing.results[0], places.results[0])
    slot = compiled([op.gather(data, found, np.int64(0))], [data], tmp_path / "model.xml").create_slot()
    for values, expected in (([2, 0, 3], [2, 3]), ([-1, -2], []), ([4], [4])):
        (tensor,) = slot.run([sent("f32", np.array(values, np.float32))], [0])
        np.testing.assert_array_equal(read(tensor), expected)


def test_a_branch_gives_another_number_where_it_has_one(tmp_path: Path) -> None:
    data, inside = op.parameter([-1], np.float32), op.parameter([-1], np.float32)
    number, itself = make([op.result(op.constant(np.float32(0)))], []), make([op.result(inside)], [inside])
    branch = op.if_op(op.less(op.reduce_max(data, np.int64(0)), np.float32(0)).output(0))
    branch.set_then_body(number)
    branch.set_else_body(itself)
    branch.set_input(data.output(0), None, inside)
    chosen = branch.set_output(number.results[0], itself.results[0])
    slot = compiled([chosen], [data], tmp_path / "model.xml").create_slot()
    for values, expected in (([2, 3], [2, 3]), ([-1, -2], [0])):
        (tensor,) = slot.run([sent("f32", np.array(values, np.float32))], [0])
        np.testing.assert_array_equal(read(tensor), np.array(expected, np.float32), strict=True)
