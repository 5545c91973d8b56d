"""A caller's states begin with what its own first inference says, whatever others' are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset6, opset13
from tests.openvino_backend.screening.small_sums import Start, adding_up, doubled, kinds, multiplied, none_yet, rows

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.states import ResetStates, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.slots import OpenVinoSlot
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model


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


def test_the_shape_of_a_state_that_begins_with_products_of_matrices_is_the_state_s_own(tmp_path: Path) -> None:
    data = op.parameter([-1, 2], np.float32)
    state = opset6.read_value(multiplied(data), "kept")
    count = op.gather(op.shape_of(state), np.array([0]), np.int64(0))
    zeros = op.broadcast(op.constant(np.float32(0)), op.concat([count, np.array([2])], 0))
    results, kept = [op.result(op.add(state, zeros))], [opset6.assign(state, "kept")]
    openvino.save_model(make(results, kept, [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    slot = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options).create_slot(keeps_states=True)
    for _ in range(3):
        assert slot.run([rows(3, 1)], [0]) == (rows(3, 2),)
