"""The check at load, on the real runtime: models that keep rows apart pass, the others are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.batching import Batching, split
from inferwire_server.core.specs import Dimension, ModelSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.engine import Engine, QueueOptions
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.engine.row_check import check_rows_are_independent
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.tallies import Tallies

MODELS = Path(__file__).parents[2] / "deploy/models"
DIGITS = Source(MODELS / "digits_mlp/1/digits_mlp.xml")
BATCHING = Batching(16)
MIXED = "output 'y' of a row depends on the rows that it runs with: its rows are mixed"
MAKE_MODEL: Any = ov.Model
"""Its type does not fit its own constructor's overloads."""

Graph = Callable[[Any], Any]


@pytest.fixture(scope="module")
def backend() -> OpenVinoBackend:
    return OpenVinoBackend()


def source_of(folder: Path, graph: Graph, shape: Sequence[int], type_name: str = "f32") -> Source:
    x: Any = ops.parameter(ov.PartialShape(list(shape)), getattr(ov.Type, type_name), name="x")
    x.output(0).set_names({"x"})
    y: Any = ops.result(graph(x))
    y.output(0).set_names({"y"})
    path = folder / "model.xml"
    ov.save_model(MAKE_MODEL([y], [x], "m"), path, compress_to_fp16=False)
    return Source(path)


def check(backend: OpenVinoBackend, source: Source, precision: str = "f32", batching: Batching = BATCHING) -> None:
    compiled = backend.compile(source, ModelOptions("m", "CPU", {"INFERENCE_PRECISION_HINT": precision}))
    check_rows_are_independent(compiled.spec, compiled.create_slot(), batching, compiled.properties)


def refusal(backend: OpenVinoBackend, source: Source, precision: str = "f32") -> str:
    with pytest.raises(ServingError) as caught:
        check(backend, source, precision)
    assert caught.value.code is Code.MODEL_FAILED
    start, _, reason = caught.value.message.partition(" cannot be batched: ")
    assert start == "model 'm'"
    return reason


def dense(x: Any) -> Any:
    weights = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    return ops.tanh(ops.matmul(x, ops.constant(weights), False, False))


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_classifier_passes_in_every_precision(backend: OpenVinoBackend, precision: str) -> None:
    check(backend, DIGITS, precision)


def test_a_convolutional_network_passes(backend: OpenVinoBackend) -> None:
    check(backend, Source(MODELS / "efficientnet_lite0/1/efficientnet_lite0.xml"), "bf16")


@pytest.mark.parametrize("max_size", [1, 2, 3, 1000])
def test_rows_that_are_apart_pass_at_any_size(backend: OpenVinoBackend, tmp_path: Path, max_size: int) -> None:
    check(backend, source_of(tmp_path, dense, (-1, 4)), batching=Batching(max_size))


@pytest.mark.parametrize("type_name", ["f64", "f32", "f16", "bf16", "f8e4m3", "i64", "u8", "boolean"])
def test_every_type_of_input_is_made_up(backend: OpenVinoBackend, tmp_path: Path, type_name: str) -> None:
    def double(x: Any) -> Any:
        return ops.concat([x, x], 1)

    check(backend, source_of(tmp_path, double, (-1, 4), type_name))


def test_free_dimensions_are_tried_until_the_model_takes_them(backend: OpenVinoBackend, tmp_path: Path) -> None:
    kernel = ops.constant(np.ones((2, 3, 5, 5), np.float32))

    def convolve(x: Any) -> Any:
        return ops.convolution(x, kernel, [1, 1], [0, 0], [0, 0], [1, 1])

    check(backend, source_of(tmp_path, convolve, (-1, 3, -1, -1)))


def center(x: Any) -> Any:
    return ops.subtract(x, ops.reduce_mean(x, ops.constant(np.array([0])), True))


def leak_a_little(x: Any) -> Any:
    hundredth = ops.constant(np.array(0.01, np.float32))
    return ops.subtract(x, ops.multiply(ops.reduce_mean(x, ops.constant(np.array([0])), True), hundredth))


def reverse_rows(x: Any) -> Any:
    return ops.strided_slice(
        x,
        ops.constant(np.array([-1, 0])),
        ops.constant(np.array([-(2**31), 4])),
        ops.constant(np.array([-1, 1])),
        [1, 1],
        [1, 1],
    )


def normalise(x: Any) -> Any:
    return ops.softmax(x, 0)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize(
    "graph",
    [center, leak_a_little, reverse_rows, normalise],
    ids=["mean", "leak", "order", "softmax"],
)
def test_a_model_that_mixes_rows_is_refused(
    backend: OpenVinoBackend, tmp_path: Path, graph: Graph, precision: str
) -> None:
    assert refusal(backend, source_of(tmp_path, graph, (-1, 4)), precision) == MIXED


def test_whole_numbers_have_to_be_equal(backend: OpenVinoBackend, tmp_path: Path) -> None:
    def add_largest(x: Any) -> Any:
        return ops.add(x, ops.reduce_max(x, ops.constant(np.array([0])), True))

    assert refusal(backend, source_of(tmp_path, add_largest, (-1, 4), "i64")) == MIXED


def test_a_model_that_gives_other_than_its_rows_is_refused(backend: OpenVinoBackend, tmp_path: Path) -> None:
    def pairs(x: Any) -> Any:
        return ops.reshape(x, ops.constant(np.array([-1, 2])), False)

    assert "gave an output of shape [2, 2], expected 1 rows" in refusal(backend, source_of(tmp_path, pairs, (-1, 4)))


def test_a_model_that_takes_one_row_alone_is_refused(backend: OpenVinoBackend, tmp_path: Path) -> None:
    def one_row(x: Any) -> Any:
        return ops.add(ops.reshape(x, ops.constant(np.array([1, 4])), False), x)

    assert refusal(backend, source_of(tmp_path, one_row, (-1, 4))).startswith(
        "2 rows alone run, together they do not: "
    )


def test_a_model_with_states_is_refused(backend: OpenVinoBackend) -> None:
    source = Source(MODELS / "silero_vad_stateful/1/silero_vad_stateful.xml")
    assert "which belong to one caller" in refusal(backend, source)


def test_a_model_without_a_batch_dimension_is_refused(backend: OpenVinoBackend, tmp_path: Path) -> None:
    assert refusal(backend, source_of(tmp_path, dense, (1, 4))) == (
        "input 'x' has shape [1,4], expected a first dimension that admits 1 to 16 rows; "
        "batch = -1 in its inferwire.toml (or batch_size, where OpenVINO Model Server's file has one) frees it, "
        "as Model.reshape does in a program"
    )


def test_a_model_whose_rows_grow_with_their_number_is_refused() -> None:
    def square(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        rows = inputs[0].shape[0]
        return (Tensor(BY_NAME["f32"], (rows, rows), bytes(4 * rows * rows)),)

    slot = FakeModel(echo_spec("m"), compute=square).create_slot()
    with pytest.raises(ServingError, match=MIXED):
        check_rows_are_independent(echo_spec("m"), slot, BATCHING, {})


def test_a_model_that_takes_no_made_up_rows_is_refused() -> None:
    def fail(_: Sequence[Tensor]) -> tuple[Tensor, ...]:
        raise ServingError(Code.INFERENCE_FAILED, "these rows are no words")

    slot = FakeModel(echo_spec("m"), compute=fail).create_slot()
    with pytest.raises(ServingError, match="it could not be tried with made-up rows: these rows are no words"):
        check_rows_are_independent(echo_spec("m"), slot, BATCHING, {})


def test_what_is_not_a_number_agrees_with_itself() -> None:
    def spoil(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return (Tensor(BY_NAME["f32"], inputs[0].shape, b"\xff" * inputs[0].byte_size),)

    check_rows_are_independent(echo_spec("m"), FakeModel(echo_spec("m"), compute=spoil).create_slot(), BATCHING, {})


@pytest.mark.parametrize("type_name", ["string", "u4", "u1"])
def test_strings_and_packed_elements_are_tried_too(type_name: str) -> None:
    free = (Dimension(0, None), Dimension(0, None))
    echo = echo_spec("m")
    ports = [replace(port, element_type=BY_NAME[type_name], shape=free) for port in (*echo.inputs, *echo.outputs)]
    spec = ModelSpec("m", (ports[0],), (ports[1],))
    check_rows_are_independent(spec, FakeModel(spec).create_slot(), BATCHING, {})

    def first_row_for_all(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        (tensor,) = inputs
        first = bytes(split([tensor], [1] * tensor.shape[0])[0][0].data)
        return (tensor._replace(data=first * tensor.shape[0]),)

    with pytest.raises(ServingError, match=MIXED):
        check_rows_are_independent(spec, FakeModel(spec, compute=first_row_for_all).create_slot(), BATCHING, {})


def test_a_model_of_strings_on_the_real_runtime_is_tried(backend: OpenVinoBackend, tmp_path: Path) -> None:
    check(backend, source_of(tmp_path, lambda x: x, (-1,), "string"))


async def test_a_model_that_cannot_be_batched_does_not_load_and_leaves_nothing_behind() -> None:
    clock = asyncio.get_running_loop().time
    async with Engine(OpenVinoBackend(), QueueOptions(), Tallies().of, clock) as engine:
        batched = ModelOptions("m", "CPU", batching=Batching(8))
        model = await engine.load(Source(MODELS / "digits_mlp/1/digits_mlp.xml"), batched)
        assert engine.devices[0].models == (model,)
        with pytest.raises(ServingError, match="model 'm' cannot be batched: it keeps states") as caught:
            await engine.load(Source(MODELS / "silero_vad_stateful/1/silero_vad_stateful.xml"), batched)
        assert caught.value.code is Code.MODEL_FAILED
        assert engine.devices[0].models == (model,)
        assert model.device.models == (model,)
