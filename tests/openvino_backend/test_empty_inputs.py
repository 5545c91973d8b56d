"""Inputs without elements are refused where a model would take some, and nowhere else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import openvino
import pytest
from openvino import opset13, opset15

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.empty_inputs import EmptyInputs

op: Any = opset13
make: Any = openvino.Model
Build: TypeAlias = Callable[[Any], Any]
F32 = BY_NAME["f32"]


def numbers(*values: int) -> Any:
    return op.constant(np.array(values, np.int64))


def number(value: int) -> Any:
    return op.constant(np.int64(value))


def length(data: Any, axis: int) -> Any:
    return op.gather(op.shape_of(data), numbers(axis), number(0))


def first_of_each(data: Any) -> Any:
    return op.gather(op.relu(data), number(0), number(1))


def at_a_place(data: Any) -> Any:
    return op.gather_nd(data, op.constant(np.array([[0, 0]], np.int64)))


def padded_convolution(data: Any) -> Any:
    weights = op.constant(np.ones((2, 1, 9, 9), np.float32))
    return op.convolution(op.unsqueeze(data, number(1)), weights, [1, 1], [8, 8], [8, 8], [1, 1])


def last_state(data: Any) -> Any:
    before = op.broadcast(op.constant(np.float32(0)), op.concat([length(data, 0), numbers(1, 2)], 0))
    lengths = op.broadcast(length(data, 1), length(data, 0))
    weights = [op.constant(np.ones((1, 8, *columns), np.float32)) for columns in ((4,), (2,), ())]
    return op.lstm_sequence(data, before, before, lengths, *weights, 2, "FORWARD").output(1)


def step_by_step(data: Any) -> Any:
    """Add up the steps of each row: no rows would end the process."""
    step, before = (op.parameter([-1, 1, 4], np.float32) for _ in range(2))
    body = make([op.result(op.add(step, before))], [step, before])
    steps = op.tensor_iterator()
    steps.set_body(body)
    steps.set_sliced_input(step, data.output(0), 0, 1, 1, -1, 1)
    start = op.broadcast(op.constant(np.float32(0)), op.concat([length(data, 0), numbers(1, 4)], 0))
    steps.set_merged_input(before, start.output(0), body.results[0].output(0))
    return steps.get_iter_value(body.results[0].output(0), -1)


def pooled(data: Any) -> Any:
    return op.adaptive_avg_pool(op.unsqueeze(data, number(1)), numbers(2, 2))


def pooled_in_a_region(data: Any) -> Any:
    region, of_batch = op.constant(np.array([[0, 0, 3, 1]], np.float32)), numbers(0)
    return op.roi_align(op.unsqueeze(data, number(1)), region, of_batch, 2, 2, 1, 1.0, "avg")


def unique_steps(data: Any) -> Any:
    return op.unique(data, number(1)).output(0)


def proposed(data: Any) -> Any:
    """Propose regions in each row, in which every step is a place."""
    places = op.unsqueeze(op.transpose(data, numbers(0, 2, 1)), number(3))
    scores = op.reduce_mean(places, numbers(1), keep_dims=True)
    sizes = op.broadcast(op.constant(np.array([40, 40, 1], np.float32)), op.concat([length(data, 0), numbers(3)], 0))
    boxes = op.constant(np.array([0, 0, 20, 20], np.float32))
    anchors = op.broadcast(boxes, op.concat([length(data, 1), numbers(1, 1, 4)], 0))
    settings = {"min_size": 1.0, "nms_threshold": 0.5, "pre_nms_count": 9, "post_nms_count": 9}
    return op.generate_proposals(sizes, anchors, places, scores, **settings).output(0)


def compiled(build: Build, path: Path, streams: str = "1") -> OpenVinoModel:
    data = op.parameter([-1, -1, 4], np.float32)
    data.output(0).get_tensor().set_names({"steps"})
    openvino.save_model(make([op.result(build(data))], [data], "m"), path, compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": streams, "INFERENCE_PRECISION_HINT": "f32"})
    return OpenVinoBackend().compile(Source(path), options)


def run(slot: Slot, rows: int, steps: int, value: float = 1) -> np.ndarray[Any, Any]:
    content = np.full((rows, steps, 4), value, np.float32).tobytes()
    (found,) = slot.run([Tensor(F32, (rows, steps, 4), content)], [0])
    return np.frombuffer(found.data, np.float32).reshape(found.shape)


@pytest.mark.parametrize(
    ("build", "shape", "kind"),
    [
        (first_of_each, (1, 0), "Gather"),
        (at_a_place, (1, 0), "GatherND"),
        (padded_convolution, (1, 0), "Convolution"),
        (last_state, (1, 0), "LSTMSequence"),
        (step_by_step, (0, 3), "TensorIterator"),
        (pooled, (1, 0), "AdaptiveAvgPool"),
        (pooled_in_a_region, (1, 0), "ROIAlign"),
        (unique_steps, (1, 0), "Unique"),
        (proposed, (0, 3), "GenerateProposals"),
    ],
)
@pytest.mark.parametrize("is_brief", [False, True])
def test_a_model_is_given_none_where_it_takes_some(
    build: Build, shape: tuple[int, int], kind: str, is_brief: bool, tmp_path: Path
) -> None:
    model = compiled(build, tmp_path / "model.xml")
    slot = model.create_brief_slot() if is_brief else model.create_slot()
    if slot is None:
        pytest.skip("no inference of it is brief")
    before = run(slot, 2, 3)
    rows, steps = shape
    for _ in range(2):
        with pytest.raises(ServingError) as caught:
            run(slot, rows, steps)
        assert caught.value.code is Code.INVALID_INPUT
        sentence = (
            f"input 'steps' of model 'm' has shape [{rows},{steps},4], expected at least one element: the model's"
        )
        assert caught.value.message.startswith(sentence)
        assert caught.value.message.endswith(f"({kind}) takes some")
    np.testing.assert_array_equal(run(slot, 2, 3), before)


def test_a_model_is_given_none_where_it_picks_as_many_as_an_input_says(tmp_path: Path) -> None:
    data, count = op.parameter([-1], np.float32), op.parameter([], np.int64)
    most = op.topk(data, count, 0, "max", "value").output(0)
    openvino.save_model(make([op.result(most)], [data, count], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    slot = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), ModelOptions("m", "CPU")).create_slot()
    two = Tensor(BY_NAME["i64"], (), np.int64(2).tobytes())
    content = np.array([5, 3, 4], np.float32).tobytes()
    (found,) = slot.run([Tensor(F32, (3,), content), two], [0])
    assert found.data == np.array([5, 4], np.float32).tobytes()
    with pytest.raises(ServingError, match=r"\(TopK\) takes some$"):
        slot.run([Tensor(F32, (0,), b""), two], [0])


def test_a_model_that_takes_texts_apart_is_given_some(tmp_path: Path) -> None:
    texts = op.parameter([-1], openvino.Type.string)
    characters = opset15.string_tensor_unpack(texts).output(2)
    openvino.save_model(make([op.result(characters)], [texts], "m"), tmp_path / "model.xml")
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1"})
    slot = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options).create_slot()
    (found,) = slot.run([Tensor(BY_NAME["string"], (2,), strings.pack([b"secret", b"s"]))], [0])
    assert found.data == b"secrets"
    with pytest.raises(ServingError, match=r"\(StringTensorUnpack\) takes some$"):
        slot.run([Tensor(BY_NAME["string"], (0,), b"")], [0])


def one_more(data: Any) -> Any:
    return op.concat([data, op.constant(np.ones((1, 1, 4), np.float32))], 1)


def total(data: Any) -> Any:
    return op.reduce_sum(data, numbers(0, 1), keep_dims=False)


def products(data: Any) -> Any:
    return op.matmul(data, data, True, False)


def the_two_most_at_most(data: Any) -> Any:
    count = op.minimum(op.gather(op.shape_of(data), number(1), number(0)), number(2))
    return op.topk(data, count, 1, "max", "value").output(0)


def with_weights(data: Any) -> Any:
    return op.matmul(data, op.constant(np.ones((4, 100), np.float32)), False, False)


@pytest.mark.parametrize(
    ("build", "shape", "expected"),
    [
        (one_more, (1, 0), np.ones((1, 1, 4))),
        (total, (3, 0), np.zeros(4)),
        (products, (1, 0), np.zeros((1, 4, 4))),
        (with_weights, (2, 0), np.zeros((2, 0, 100))),
        (the_two_most_at_most, (2, 0), np.zeros((2, 0, 4))),
        (first_of_each, (0, 3), np.zeros((0, 4))),
        (padded_convolution, (0, 3), np.zeros((0, 2, 11, 12))),
        (last_state, (0, 3), np.zeros((0, 1, 2))),
    ],
)
def test_a_model_is_given_none_where_it_can_do_with_none(
    build: Build, shape: tuple[int, int], expected: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    slot = compiled(build, tmp_path / "model.xml").create_slot()
    run(slot, 1, 3, 7)
    np.testing.assert_array_equal(run(slot, *shape), expected)


def test_what_no_shape_fits_is_openvino_s_to_refuse(tmp_path: Path) -> None:
    data = op.parameter([-1, 1, -1, -1], np.float32)
    pooled = op.max_pool(data, [1, 1], [1, 1], [0, 0], [0, 0], [3, 3]).output(0)
    openvino.save_model(make([op.result(pooled)], [data], "m"), tmp_path / "model.xml")
    slot = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), ModelOptions("m", "CPU")).create_slot()
    with pytest.raises(ServingError, match="Kernel after dilation has size") as caught:
        slot.run([Tensor(F32, (1, 1, 0, 5), b"")], [0])
    assert caught.value.code is Code.INFERENCE_FAILED


def test_what_is_kept_of_a_model_has_none_of_its_weights() -> None:
    weights = np.ones((4, 100), np.float32)
    data = op.parameter([-1, -1, 4], np.float32)
    product = op.matmul(data, op.constant(weights, shared_memory=True), False, False)
    kept = EmptyInputs.of(make([op.result(product)], [data], "m"))
    are_there, product, weights = weakref.ref(weights), None, None
    gc.collect()
    assert kept is not None
    assert are_there() is None


def test_a_model_that_is_let_go_of_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    model = compiled(padded_convolution, tmp_path / "model.xml")
    slot, brief = model.create_slot(), model.create_brief_slot()
    run(slot, 0, 3)
    gc.collect()
    gc.disable()
    try:
        del model, slot, brief
        assert gc.collect() == 0
    finally:
        gc.enable()
