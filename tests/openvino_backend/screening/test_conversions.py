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
from inferwire_server.openvino_backend.backend import OpenVinoBackend

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
