"""What a configuration says of inputs and outputs, on the real runtime: it shapes the model, or fails it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import openvino.opset13 as ops
import pytest
from tests.openvino_backend.small_models import compiled, f32, parameter, saved, with_states

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import Source
from inferwire_server.core.stated_ports import StatedPort, StatedPorts
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend

F32 = BY_NAME["f32"]


def a_source(folder: Path, shape: Sequence[int], stated: StatedPorts) -> Source:
    """A model that gives back an input z as y."""
    z = parameter(F32, shape, "z")
    return replace(saved(folder, [("y", ops.relu(z))], [z]), stated=stated, by_settings=True)


def stated(dims: tuple[int, ...], most_rows: int = 0, outputs: tuple[int, ...] | None = None) -> StatedPorts:
    ports = {"z": StatedPort(F32, dims)}
    return StatedPorts("m/config.pbtxt", ports, {"y": StatedPort(F32, outputs or dims)}, most_rows)


@pytest.mark.parametrize(
    ("shape", "said", "expected"),
    [
        ((-1, 3, -1, -1), stated((3, 2, 2), 8), "[?,3,2,2]"),
        ((1, 4), stated((4,), 8), "[?,4]"),
        ((1, 4), stated((4,), 1), "[1,4]"),
        ((-1, 4), stated((2, 4)), "[2,4]"),
        ((2, 4), stated((-1, -1)), "[2,4]"),
    ],
)
def test_a_model_is_what_both_say(
    backend: OpenVinoBackend, tmp_path: Path, shape: Sequence[int], said: StatedPorts, expected: str
) -> None:
    model = compiled(backend, a_source(tmp_path, shape, said))
    assert [port.shape_text for port in (*model.spec.inputs, *model.spec.outputs)] == [expected, expected]


def test_rows_that_were_one_are_as_many_as_come(backend: OpenVinoBackend, tmp_path: Path) -> None:
    model = compiled(backend, a_source(tmp_path, (1, 4), stated((4,), 8)))
    (output,) = model.create_slot().run((f32([[1, 2, 3, 4]] * 3),), (0,))
    assert output.shape == (3, 4)


def test_pictures_have_the_layout_that_is_stated(backend: OpenVinoBackend, tmp_path: Path) -> None:
    said = StatedPorts("m/config.pbtxt", {"z": StatedPort(row_layout="CHW")}, {}, 8)
    model = compiled(backend, a_source(tmp_path, (1, 3, 2, 2), said))
    assert model.spec.inputs[0].layout == "[N,C,H,W]"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (stated((5,), 8), "input 'z' is said to have dims [5] behind that of the batch, and the model's has [?,4]"),
        (
            stated((4,), 8, (5,)),
            "output 'y' is said to have dims [5] behind that of the batch, and the model's has [?,4]",
        ),
    ],
)
def test_one_that_is_not_so_fails(backend: OpenVinoBackend, tmp_path: Path, said: StatedPorts, sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        compiled(backend, a_source(tmp_path, (-1, 4), said))
    assert (caught.value.code, caught.value.message) == (Code.MODEL_FAILED, f"m/config.pbtxt: {sentence}")


def test_sequences_are_for_a_model_that_keeps_states(backend: OpenVinoBackend, tmp_path: Path) -> None:
    said = StatedPorts("m/config.pbtxt", {}, {}, has_sequences=True)
    with pytest.raises(
        ServingError, match=r"^m/config\.pbtxt: sequence_batching is set, and the model keeps no states"
    ):
        compiled(backend, a_source(tmp_path, (1, 4), said))
    assert compiled(backend, replace(with_states(tmp_path), stated=said)).spec.states


def test_a_model_that_cannot_be_so_fails_with_openvino_s_reason(backend: OpenVinoBackend, tmp_path: Path) -> None:
    a, b = parameter(F32, (-1, -1), "a"), parameter(F32, (-1, -1), "b")
    ports = {"a": StatedPort(F32, (2, 3)), "b": StatedPort(F32, (4, 5))}
    source = saved(tmp_path, [("y", ops.matmul(a, b, False, False))], [a, b])
    with pytest.raises(ServingError, match=r"^m/config.pbtxt: dims: (.|\n)*matrix"):
        compiled(backend, replace(source, stated=StatedPorts("m/config.pbtxt", ports, {}), by_settings=True))
