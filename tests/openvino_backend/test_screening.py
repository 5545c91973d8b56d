"""Graphs that would end the process or mix up its callers are refused or mended, wherever the operation hides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model


def bits(data: Any) -> Any:
    """Convert there and back, through a type that the plugin writes too much of."""
    there = op.convert(data, "u1", name="to_bits")
    return op.convert(there, "f32")


def plain() -> Any:
    data = op.parameter([1, 8], np.float32)
    return make([op.result(bits(data))], [data], "plain")


def branch() -> Any:
    data, condition = op.parameter([1, 8], np.float32), op.parameter([1], np.bool_)
    then_data, else_data = op.parameter([1, 8], np.float32), op.parameter([1, 8], np.float32)
    bodies = make([op.result(bits(then_data))], [then_data]), make([op.result(else_data)], [else_data])
    choice = op.if_op(condition)
    choice.set_then_body(bodies[0])
    choice.set_else_body(bodies[1])
    choice.set_input(data.output(0), then_data, else_data)
    out = choice.set_output(bodies[0].results[0], bodies[1].results[0])
    return make([op.result(out)], [data, condition], "branch")


def loop() -> Any:
    data, inside = op.parameter([1, 8], np.float32), op.parameter([1, 8], np.float32)
    body = make([op.result(bits(inside))], [inside])
    iterator = op.tensor_iterator()
    iterator.set_body(body)
    iterator.set_sliced_input(inside, data.output(0), 0, 1, 1, -1, 0)
    out = iterator.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 0)
    return make([op.result(out)], [data], "loop")


@pytest.mark.parametrize("build", [plain, branch, loop])
def test_a_conversion_that_writes_too_much_is_refused(build: Any, tmp_path: Path) -> None:
    openvino.save_model(build(), tmp_path / "model.xml")
    with pytest.raises(ServingError, match=r"node '.*to_bits.*' converts to u1, .* expected u8 or boolean"):
        OpenVinoBackend().compile(Source(tmp_path / "model.xml"), ModelOptions("m", "CPU"))


def test_constants_of_bits_are_no_harm(tmp_path: Path) -> None:
    data = op.parameter([1, 8], np.float32)
    constant = op.convert(op.constant(openvino.Tensor(np.array([5], np.uint8), [8], openvino.Type.u1)), "f32")
    openvino.save_model(make([op.result(op.add(data, constant))], [data], "add"), tmp_path / "model.xml")
    OpenVinoBackend().compile(Source(tmp_path / "model.xml"), ModelOptions("m", "CPU"))


def once(data: Any) -> Any:
    return op.convert(data, "f32")


def twice(data: Any) -> Any:
    return op.convert(op.convert(data, "f32"), "f32")


def behind_a_zero(data: Any) -> Any:
    return op.convert(op.add(data, op.constant(np.float32(0))), "f32")


def like_itself(data: Any) -> Any:
    return op.convert_like(data, data)


@pytest.mark.parametrize("build", [once, twice, behind_a_zero, like_itself])
@pytest.mark.parametrize("is_brief", [False, True])
def test_an_input_that_is_only_converted_to_its_own_type_is_given_whatever_shapes_were_before(
    build: Any, is_brief: bool, tmp_path: Path
) -> None:
    data = op.parameter([-1, 3], np.float32)
    data.output(0).get_tensor().set_names({"given"})
    kept = build(data)
    kept.output(0).get_tensor().set_names({"kept"})
    results = [op.result(kept), op.result(kept), op.result(op.negative(kept))]
    openvino.save_model(make(results, [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), ModelOptions("m", "CPU"))
    assert [sorted(port.names) for port in model.spec.inputs] == [["given"]]
    assert [sorted(port.names) for port in model.spec.outputs[:2]] == [["kept"], ["kept"]]
    slot = model.create_brief_slot() if is_brief else model.create_slot()
    assert slot is not None
    for rows in (5, 3, 5, 2, 900, 3, 4):
        sent = Tensor(BY_NAME["f32"], (rows, 3), np.arange(1, rows * 3 + 1, dtype=np.float32).tobytes())
        assert slot.run([sent], [0, 1]) == (sent, sent)


def bare(data: Any) -> Any:
    scores = op.matmul(data, data, False, True)
    return op.matmul(op.softmax(scores, -1), data, False, False)


def scaled(data: Any) -> Any:
    scores = op.multiply(op.matmul(data, data, False, True), op.constant(np.float32(0.5)))
    return op.matmul(op.softmax(scores, 2), data, False, False)


def as_one_operation(data: Any) -> Any:
    return op.scaled_dot_product_attention(data, data, data)


@pytest.mark.parametrize("build", [bare, scaled, as_one_operation])
def test_attention_is_right_also_after_one_over_a_single_element(build: Any, tmp_path: Path) -> None:
    data = op.parameter([-1, -1, 4], np.float32)
    attention = build(data)
    attention.output(0).get_tensor().set_names({"attended"})
    openvino.save_model(make([op.result(attention)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    after_one, of_its_own = (OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options) for _ in range(2))
    assert sorted(after_one.spec.outputs[0].names) == ["attended"]

    def attend(model: OpenVinoModel, length: int) -> Any:
        content = np.random.default_rng(1).uniform(-3, 3, (2, length, 4)).astype(np.float32)
        (found,) = model.create_slot().run([Tensor(BY_NAME["f32"], content.shape, content.tobytes())], [0])
        return np.frombuffer(found.data, np.float32)

    attend(after_one, 1)
    for length in (17, 300):
        np.testing.assert_allclose(attend(after_one, length), attend(of_its_own, length), atol=1e-4)


@pytest.mark.parametrize("build", [bare, scaled, as_one_operation])
@pytest.mark.parametrize("shape", [(2, 0, 4), (0, 3, 4), (0, 0, 4)])
def test_attention_of_nothing_gives_nothing(build: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    data = op.parameter([-1, -1, 4], np.float32)
    openvino.save_model(make([op.result(build(data))], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), ModelOptions("m", "CPU"))
    nothing = Tensor(BY_NAME["f32"], shape, b"")
    assert model.create_slot().run([nothing], [0]) == (nothing,)


def masked(data: Any) -> Any:
    return op.matmul(op.softmax(op.add(op.matmul(data, data, False, True), shown(data)), -1), data, False, False)


def masked_by_choice(data: Any) -> Any:
    scores = op.matmul(data, data, False, True)
    chosen = op.select(op.greater(shown(data), op.constant(np.float32(0))), scores, op.constant(np.float32(-1e4)))
    return op.matmul(op.softmax(chosen, -1), data, False, False)


def masked_as_one_operation(data: Any) -> Any:
    return op.scaled_dot_product_attention(data, data, data, shown(data))


def over_known_length(data: Any) -> Any:
    known = op.reshape(data, op.constant(np.array([-1, 2, 4], np.int64)), False)
    return op.matmul(op.softmax(op.matmul(known, known, False, True), -1), known, False, False)


def shown(data: Any) -> Any:
    """Give something to mask with: a row for each."""
    return op.unsqueeze(op.reduce_max(data, np.array([2])), np.int64(1))


@pytest.mark.parametrize("build", [masked, masked_by_choice, masked_as_one_operation, over_known_length])
def test_attention_that_needs_no_mask_is_left_as_it_is(build: Any, tmp_path: Path) -> None:
    data = op.parameter([-1, -1, 4], np.float32)
    openvino.save_model(make([op.result(build(data))], [data], "m"), tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert kinds(read_to_run(core, source)) == kinds(read_model(core, source))


def kinds(model: openvino.Model) -> list[str]:
    nodes: list[Any] = model.get_ordered_ops()
    return [node.get_type_name() for node in nodes]
