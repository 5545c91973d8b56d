"""Attention gives a caller what it gives where nothing else has run, whatever shapes others have had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset6, opset13
from tests.openvino_backend.small_models import variable

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model


def bare(data: Any) -> Any:
    scores = op.matmul(data, data, False, True)
    return op.matmul(op.softmax(scores, -1), data, False, False)


def scaled(data: Any) -> Any:
    scores = op.multiply(op.matmul(data, data, False, True), op.constant(np.float32(0.5)))
    return op.matmul(op.softmax(scores, 2), data, False, False)


def as_one_operation(data: Any) -> Any:
    return op.scaled_dot_product_attention(data, data, data)


def of_a_scale(data: Any) -> Any:
    """Attend as PyTorch's models do whose attention has a scale and no mask: they have the number 0 for that."""
    zero, scale = op.constant(np.float32(0)), op.constant(np.float32(0.3))
    return op.scaled_dot_product_attention(data, data, data, zero, scale)


def off_by_zero(data: Any) -> Any:
    scores = op.add(op.matmul(data, data, False, True), op.constant(np.float32(0)))
    return op.matmul(op.softmax(scores, -1), data, False, False)


def in_two_precisions(data: Any) -> Any:
    """Attend as models in half precision do, whose softmax is computed in single precision."""
    half = op.convert(data, "f16")
    scores = op.convert(op.matmul(half, half, False, True), "f32")
    return op.convert(op.matmul(op.convert(op.softmax(scores, -1), "f16"), half, False, False), "f32")


_BUILDS = [bare, scaled, as_one_operation, of_a_scale, off_by_zero, in_two_precisions]


@pytest.mark.parametrize("build", _BUILDS)
@pytest.mark.parametrize("is_half", [False, True])
def test_attention_is_right_also_after_one_over_a_single_element(build: Any, is_half: bool, tmp_path: Path) -> None:
    data = op.parameter([-1, -1, 4], np.float32)
    attention = build(data)
    attention.output(0).get_tensor().set_names({"attended"})
    openvino.save_model(make([op.result(attention)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=is_half)
    exact = {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), ModelOptions("m", "CPU", exact))
    in_process = openvino.Core().compile_model(tmp_path / "model.xml", "CPU", exact)
    assert sorted(model.spec.outputs[0].names) == ["attended"]

    def attend(content: Any) -> Any:
        (found,) = model.create_slot().run([Tensor(BY_NAME["f32"], content.shape, content.tobytes())], [0])
        return np.frombuffer(found.data, np.float32).reshape(found.shape)

    attend(np.ones((2, 1, 4), np.float32))
    for length in (17, 300):
        content = np.random.default_rng(1).uniform(-3, 3, (2, length, 4)).astype(np.float32)
        np.testing.assert_allclose(attend(content), in_process(content)[0], atol=1e-4)


@pytest.mark.parametrize("build", _BUILDS)
@pytest.mark.parametrize("shape", [(2, 0, 4), (0, 3, 4), (0, 0, 4)])
def test_attention_of_nothing_gives_nothing(build: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    data = op.parameter([-1, -1, 4], np.float32)
    openvino.save_model(make([op.result(build(data))], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), ModelOptions("m", "CPU"))
    nothing = Tensor(BY_NAME["f32"], shape, b"")
    assert model.create_slot().run([nothing], [0]) == (nothing,)


def masked(data: Any) -> Any:
    return op.matmul(op.softmax(op.add(op.matmul(data, data, False, True), shown(data)), -1), data, False, False)


def masked_in_two_precisions(data: Any) -> Any:
    scores = op.convert(op.add(op.matmul(data, data, False, True), shown(data)), "f16")
    return op.matmul(op.convert(op.softmax(scores, -1), "f32"), data, False, False)


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


@pytest.mark.parametrize(
    "build", [masked, masked_in_two_precisions, masked_by_choice, masked_as_one_operation, over_known_length]
)
def test_attention_that_needs_no_mask_is_left_as_it_is(build: Any, tmp_path: Path) -> None:
    data = op.parameter([-1, -1, 4], np.float32)
    openvino.save_model(make([op.result(build(data))], [data], "m"), tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert kinds(read_to_run(core, source)) == kinds(read_model(core, source))


def kinds(model: openvino.Model) -> list[str]:
    nodes: list[Any] = model.get_ordered_ops()
    return [node.get_type_name() for node in nodes]


def over_states(mask: Any = None, length: int = -1, times: int = 1, pieces: int = 1) -> Any:
    """Make a model that attends over what it was given so far, as language models do, with a mask or without one.

    Its keys and values have two heads, each of which is for so many heads of the queries, and are joined to those
    before in so many pieces.
    """
    data, chosen = op.parameter([-1, length, 32], np.float32), op.parameter([-1], np.int32)
    batch = op.gather(op.shape_of(data), np.array([0]), np.int64(0))
    nothing = op.broadcast(np.float32(0), op.concat([batch, np.array([2, 0, 16])], 0))
    heads = op.transpose(op.reshape(data, np.array([0, 0, 2, 16]), True), np.array([0, 2, 1, 3]))
    sinks, given = list[Any](), list[Any]()
    for name in ("keys", "values"):
        kept = variable(name, -1, 2, -1, 16)
        before = op.gather(opset6.read_value(nothing, kept), chosen, np.int64(0))
        joined = op.concat([before, *[heads] * pieces], 2)
        sinks.append(opset6.assign(joined, kept))
        given.append(joined if times == 1 else repeated(joined, times))
    masks = [] if mask is None else [mask]
    attended = op.scaled_dot_product_attention(op.concat([heads] * times, 1), *given, *masks)
    return make([op.result(op.negative(attended))], sinks, [data, chosen, *masks], "m")


def repeated(heads: Any, times: int) -> Any:
    rows = op.constant(np.array([1, 1, times, 1, 1]))
    each = op.broadcast(op.unsqueeze(heads, np.int64(2)), rows, broadcast_spec="BIDIRECTIONAL")
    return op.reshape(each, np.array([0, 2 * times, -1, 16]), True)


@pytest.mark.parametrize("shape", [None, (-1, -1), (1, 1, -1, -1), (-1, -1, -1, -1)])
def test_attention_over_states_is_right_for_every_batch_in_bf16(shape: Any, tmp_path: Path) -> None:
    model = over_states(None if shape is None else op.parameter(list(shape), np.float32))
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)

    def attend(precision: str) -> Any:
        options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": precision})
        slot = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options).create_slot()
        for length in (7, 20, 33):
            content = np.random.default_rng(length).uniform(-3, 3, (3, length, 32)).astype(np.float32)
            inputs = [tensor(content), tensor(np.arange(3, dtype=np.int32))]
            if shape is not None:
                inputs.append(tensor(np.zeros((1,) * (len(shape) - 2) + (length, length), np.float32)))
            (found,) = slot.run(inputs, [0])
            yield np.frombuffer(found.data, np.float32)

    for found, expected in zip(attend("bf16"), attend("f32"), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.1)


def tensor(content: Any) -> Tensor:
    return Tensor(BY_NAME[openvino.Type(content.dtype).get_type_name()], content.shape, content.tobytes())


@pytest.mark.parametrize("shape", [[3, 1, -1, -1], [], None], ids=["batches", "a number", "any dimensions"])
def test_masks_that_are_not_known_to_lack_batches_are_left_as_they_are(shape: list[int] | None, tmp_path: Path) -> None:
    mask = op.parameter(openvino.PartialShape.dynamic() if shape is None else shape, np.float32)
    openvino.save_model(over_states(mask), tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert kinds(read_to_run(core, source)) == kinds(read_model(core, source))


@pytest.mark.parametrize("length", [-1, 1])
@pytest.mark.parametrize("times", [1, 2])
def test_attention_without_a_mask_extends_states_by_itself_as_it_does_in_openvino(
    length: int, times: int, tmp_path: Path
) -> None:
    path, properties = tmp_path / "model.xml", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
    openvino.save_model(over_states(length=length, times=times), path, compress_to_fp16=False)
    model = OpenVinoBackend().compile(Source(path), ModelOptions("m", "CPU", properties))
    assert "ScaledDotProductAttention" in [node.info["layerType"] for node in model.runtime_model().nodes]
    slot = model.create_slot(keeps_states=True)
    local: Any = openvino.Core().compile_model(path, "CPU", properties).create_infer_request()
    random, chosen = np.random.default_rng(1), np.arange(3, dtype=np.int32)
    for _ in range(20):
        content = random.uniform(-3, 3, (3, 1, 32)).astype(np.float32)
        (found,) = slot.run([tensor(content), tensor(chosen)], [0])
        expected = local.infer([content, chosen])[0]
        np.testing.assert_allclose(np.frombuffer(found.data, np.float32), expected.ravel(), atol=1e-4)


def test_attention_without_a_mask_goes_over_all_that_is_joined_to_its_states(tmp_path: Path) -> None:
    path, properties = tmp_path / "model.xml", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
    openvino.save_model(over_states(pieces=2), path, compress_to_fp16=False)
    slot = OpenVinoBackend().compile(Source(path), ModelOptions("m", "CPU", properties)).create_slot(keeps_states=True)
    local: Any = openvino.Core().compile_model(path, "CPU", properties).create_infer_request()
    random, chosen = np.random.default_rng(1), np.arange(2, dtype=np.int32)
    for length in (3, 1):
        content = random.uniform(-3, 3, (2, length, 32)).astype(np.float32)
        (found,) = slot.run([tensor(content), tensor(chosen)], [0])
        np.testing.assert_allclose(
            np.frombuffer(found.data, np.float32), local.infer([content, chosen])[0].ravel(), atol=1e-4
        )
