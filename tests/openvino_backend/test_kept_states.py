"""What a caller's states are after a reset, a failure, or both: also those that begin with more than zeros."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset6, opset13
from tests.openvino_backend.small_models import variable

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.properties import PropertyValue
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.states import ReadStates, ResetStates, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend import bound_slots
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel

op: Any = opset13
make: Any = openvino.Model

GOOD, BAD, WORSE = 8, 7, 9


def compiled(model: Any, folder: Path, **properties: PropertyValue) -> OpenVinoModel:
    openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)
    settings: dict[str, PropertyValue] = {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32", **properties}
    return OpenVinoBackend().compile(Source(folder / "model.xml"), ModelOptions("m", "CPU", settings))


def tensor(content: Any) -> Tensor:
    return Tensor(BY_NAME[openvino.Type(content.dtype).get_type_name()], content.shape, content.tobytes())


def a_hundred(_: Any) -> Any:
    return op.constant(np.full(1, 100, np.float32))


def ten_times_the_most(data: Any) -> Any:
    return op.multiply(op.reduce_max(data, np.array([0]), True), op.constant(np.full(1, 10, np.float32)))


def counting(start: Callable[[Any], Any]) -> Any:
    """Make a model that adds up all that it is given, in rows of four: it takes nothing that is no such rows."""
    data, sum_so_far = op.parameter([openvino.Dimension(4, 1000)], np.float32), variable("sum", 1)
    rows = op.reshape(op.relu(data), np.array([-1, 4]), False)
    added = op.reshape(op.reduce_sum(rows, np.array([0, 1]), False), np.array([1]), False)
    total = op.add(opset6.read_value(start(data), sum_so_far), added)
    return make([op.result(total)], [opset6.assign(total, sum_so_far)], [data], "m")


def count(slot: Slot, length: int) -> float:
    (found,) = slot.run([tensor(np.ones(length, np.float32))], [0])
    return float(np.frombuffer(found.data, np.float32)[0])


def fail(slot: Slot, length: int) -> None:
    with pytest.raises(ServingError, match="Reshape"):
        count(slot, length)


@pytest.mark.parametrize(("start", "begins_at"), [(a_hundred, 100), (ten_times_the_most, 10)])
def test_a_state_begins_as_the_model_says_whoever_has_failed(
    start: Callable[[Any], Any], begins_at: float, tmp_path: Path
) -> None:
    model = compiled(counting(start), tmp_path)
    mine, other, bad = (model.create_slot(keeps_states=True) for _ in range(3))
    fail(mine, BAD)
    assert count(mine, GOOD) == begins_at + 8
    mine.access(ResetStates())
    fail(bad, WORSE)
    fail(mine, BAD)
    assert [count(each, GOOD) for each in (mine, other, mine)] == [begins_at + 8, begins_at + 8, begins_at + 16]


def test_a_state_that_was_written_is_what_it_was_set_to_whoever_fails(tmp_path: Path) -> None:
    model = compiled(counting(a_hundred), tmp_path)
    mine, bad = (model.create_slot(keeps_states=True) for _ in range(2))
    mine.access(WriteStates((("sum", tensor(np.full(1, 5, np.float32))),)))
    fail(bad, BAD)
    fail(mine, WORSE)
    assert count(mine, GOOD) == 13


def attending() -> Any:
    """Make a model that attends over all that it was given, and gives that in rows as long as it is told."""
    data, chosen = op.parameter([-1, -1, 32], np.float32), op.parameter([-1], np.int32)
    pattern = op.parameter([2], np.int64)
    batch = op.gather(op.shape_of(data), np.array([0]), np.int64(0))
    nothing = op.broadcast(np.float32(0), op.concat([batch, np.array([2, 0, 16])], 0))
    heads = op.transpose(op.reshape(data, np.array([0, 0, 2, 16]), True), np.array([0, 2, 1, 3]))
    sinks, given = list[Any](), list[Any]()
    for kept in (variable("keys", -1, 2, -1, 16), variable("values", -1, 2, -1, 16)):
        given.append(op.concat([op.gather(opset6.read_value(nothing, kept), chosen, np.int64(0)), heads], 2))
        sinks.append(opset6.assign(given[-1], kept))
    attended = op.relu(op.scaled_dot_product_attention(heads, *given))
    return make([op.result(op.reshape(attended, pattern, False))], sinks, [data, chosen, pattern], "m")


def attend(slot: Slot, batch: int, length: int, width: int = 1, transforms: Transforms = ()) -> Any:
    content = np.random.default_rng(length).uniform(-3, 3, (batch, length, 32)).astype(np.float32)
    inputs = [tensor(content), tensor(np.arange(batch, dtype=np.int32)), tensor(np.array([-1, width]))]
    (found,) = slot.run(inputs, [0], transforms)
    return np.frombuffer(found.data, np.float32)


def kept_lengths(slot: Slot) -> list[int]:
    return [state.shape[2] for state in slot.access(ReadStates())]


def test_attention_that_has_been_extended_by_an_inference_that_fails_is_as_before(tmp_path: Path) -> None:
    model = compiled(attending(), tmp_path)
    mine, undisturbed = (model.create_slot(keeps_states=True) for _ in range(2))
    for slot in (mine, undisturbed):
        attend(slot, 2, 5)
    for _ in range(2):
        with pytest.raises(ServingError, match="Reshape"):
            attend(mine, 2, 3, width=7)
        assert kept_lengths(mine) == [5, 5]
    np.testing.assert_allclose(attend(mine, 2, 1), attend(undisturbed, 2, 1), atol=1e-4)
    assert kept_lengths(mine) == [6, 6]


def test_attention_of_the_shapes_of_what_has_failed_is_extended_once(tmp_path: Path) -> None:
    slot = compiled(attending(), tmp_path).create_slot(keeps_states=True)
    attend(slot, 2, 5)
    with pytest.raises(ServingError, match="Reshape"):
        attend(slot, 2, 3, width=7)
    attend(slot, 2, 3)
    assert kept_lengths(slot) == [8, 8]


def test_attention_that_runs_again_is_extended_once(tmp_path: Path) -> None:
    slot = compiled(attending(), tmp_path).create_slot(keeps_states=True)
    attend(slot, 2, 5)
    fails = [True]

    def fail_once(found: Tensor) -> Tensor:
        if fails:
            fails.clear()
            raise RuntimeError("this graph mixes up its shapes")
        return found

    attend(slot, 2, 3, transforms=(fail_once,))
    assert kept_lengths(slot) == [8, 8]


def test_attention_that_was_too_large_to_be_copied_is_copied_after_a_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = compiled(attending(), tmp_path).create_slot(keeps_states=True)
    attend(slot, 2, 5)
    monkeypatch.setattr(
        bound_slots, "MAX_COPIED_STATE_BYTES", sum(each.byte_size for each in slot.access(ReadStates()))
    )
    for length in (1, 1):
        attend(slot, 2, length)
    slot.access(ResetStates())
    attend(slot, 2, 5)
    with pytest.raises(ServingError, match="Reshape"):
        attend(slot, 2, 3, width=7)
    assert kept_lengths(slot) == [5, 5]


def test_attention_too_large_to_be_copied_is_said_not_to_be_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_slots, "MAX_COPIED_STATE_BYTES", 0)
    slot = compiled(attending(), tmp_path).create_slot(keeps_states=True)
    attend(slot, 2, 5)
    attend(slot, 2, 1)
    with pytest.raises(ServingError, match=r"Reshape(.|\n)*the states may have changed: reset or write them") as caught:
        attend(slot, 2, 3, width=7)
    assert caught.value.code is Code.INFERENCE_FAILED
    assert kept_lengths(slot) == [9, 9]
    slot.access(ResetStates())
    attend(slot, 2, 5)
    assert kept_lengths(slot) == [5, 5]


def test_attention_begins_anew_for_more_rows_after_a_reset(tmp_path: Path) -> None:
    model = compiled(attending(), tmp_path)
    reset, fresh = (model.create_slot(keeps_states=True) for _ in range(2))
    attend(reset, 1, 14)
    reset.access(ResetStates())
    for length in (7, 1, 1):
        np.testing.assert_allclose(attend(reset, 4, length), attend(fresh, 4, length), atol=1e-4)


def write(slot: Slot, **shapes: tuple[int, ...]) -> None:
    written = [(name, tensor(np.full(shape, 0.5, np.float32))) for name, shape in shapes.items()]
    slot.access(WriteStates(tuple(written)))


NOT_TOGETHER = r"are keys and values of the same attention in model 'm', .* write or reset both"


@pytest.mark.parametrize(
    "shapes",
    [
        {"keys": (2, 2, 9, 16), "values": (2, 2, 5, 16)},
        {"keys": (2, 2, 5, 16), "values": (2, 2, 9, 16)},
        {"keys": (1, 2, 5, 16), "values": (2, 2, 5, 16)},
        {"keys": (2, 2, 5, 16)},
        {"values": (2, 2, 5, 16)},
    ],
)
def test_attention_takes_no_keys_and_values_of_different_rows(
    shapes: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    slot = compiled(attending(), tmp_path).create_slot(keeps_states=True)
    write(slot, **shapes)
    for _ in range(2):
        with pytest.raises(ServingError, match=NOT_TOGETHER) as caught:
            attend(slot, 2, 1)
        assert caught.value.code is Code.INVALID_INPUT
    write(slot, keys=(2, 2, 5, 16), values=(2, 2, 5, 16))
    attend(slot, 2, 1)
    assert kept_lengths(slot) == [6, 6]


def test_attention_takes_keys_or_values_alone_if_they_are_of_the_rows_of_the_others(tmp_path: Path) -> None:
    slot = compiled(attending(), tmp_path).create_slot(keeps_states=True)
    attend(slot, 2, 5)
    write(slot, keys=(2, 2, 5, 16))
    attend(slot, 2, 1)
    write(slot, values=(2, 2, 5, 16))
    with pytest.raises(ServingError, match=rf"'keys' \[2,2,6,16\] and 'values' \[2,2,5,16\] {NOT_TOGETHER}"):
        attend(slot, 2, 1)
    slot.access(ResetStates(("keys",)))
    with pytest.raises(ServingError, match=rf"'keys' \(not written\) and 'values' \[2,2,5,16\] {NOT_TOGETHER}"):
        attend(slot, 2, 1)
    slot.access(ResetStates())
    attend(slot, 2, 1)
    assert kept_lengths(slot) == [1, 1]


@pytest.mark.parametrize("name", ["KV_CACHE_PRECISION", "KEY_CACHE_PRECISION", "VALUE_CACHE_PRECISION"])
@pytest.mark.parametrize("precision", ["u4", "u3"])
@pytest.mark.parametrize("is_in_the_model", [False, True])
def test_keys_and_values_of_less_than_a_byte_are_refused(
    name: str, precision: str, is_in_the_model: bool, tmp_path: Path
) -> None:
    model = attending()
    if is_in_the_model:
        model.set_rt_info(precision, ["runtime_options", name])
    with pytest.raises(ServingError, match=rf"{name} is {precision}, .* expected u8, f16, bf16 or f32") as caught:
        compiled(model, tmp_path, **{} if is_in_the_model else {name: precision})
    assert caught.value.code is Code.MODEL_FAILED


@pytest.mark.parametrize(
    "said",
    [{"CPU": {"KEY_CACHE_PRECISION": "u4"}}, "{CPU:{KEY_CACHE_PRECISION:u4}}", {"CPU": {"KEY_CACHE_PRECISION": " u4"}}],
)
def test_so_are_those_that_a_property_of_one_device_asks_for(said: PropertyValue, tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="KEY_CACHE_PRECISION is u4"):
        compiled(attending(), tmp_path, DEVICE_PROPERTIES=said)


def test_what_properties_say_of_keys_and_values_overrides_what_the_model_says(tmp_path: Path) -> None:
    model = attending()
    model.set_rt_info("u4", ["runtime_options", "VALUE_CACHE_PRECISION"])
    attend(compiled(model, tmp_path, VALUE_CACHE_PRECISION="u8").create_slot(keeps_states=True), 2, 5)


def test_models_without_states_take_any_precision_of_keys_and_values(tmp_path: Path) -> None:
    data = op.parameter([1], np.float32)
    compiled(make([op.result(op.relu(data))], [data], "m"), tmp_path, KV_CACHE_PRECISION="u4")
