"""The planes of a picture belong together, or the picture is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13
from tests.openvino_backend.small_models import compiled, f32

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel

op: Any = opset13
make: Any = openvino.Model

CONVERSIONS: dict[str, tuple[Callable[..., Any], Sequence[int]]] = {
    "NV12 to RGB": (op.nv12_to_rgb, (1, 2)),
    "NV12 to BGR": (op.nv12_to_bgr, (1, 2)),
    "I420 to RGB": (op.i420_to_rgb, (1, 1, 1)),
    "I420 to BGR": (op.i420_to_bgr, (1, 1, 1)),
}
"""What converts, and the channels of each plane."""

GRAY = 128
"""What the planes of colours have where there is none."""


def pictures_of(
    conversion: str, shapes: Sequence[Sequence[int]], path: Path, backend: OpenVinoBackend
) -> OpenVinoModel:
    """A model that gives the picture whose planes, or single plane, it is given in these shapes."""
    convert, _ = CONVERSIONS[conversion]
    inputs = [op.parameter([*shape], np.uint8) for shape in shapes]
    picture = op.result(op.convert(convert(*inputs), "f32"))
    openvino.save_model(make([picture], inputs, "m"), path, compress_to_fp16=False)
    return compiled(backend, Source(path))


def filled(value: int, *shape: int) -> Tensor:
    return Tensor(BY_NAME["u8"], shape, np.full(shape, value, np.uint8).tobytes())


def gray(brightness: int, *shape: int) -> Tensor:
    return f32(np.full((*shape, 3), round(1.164 * (brightness - 16))))


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_planes_of_other_sizes_than_the_first_are_refused(
    conversion: str, backend: OpenVinoBackend, tmp_path: Path
) -> None:
    _, (_, *channels) = CONVERSIONS[conversion]
    shapes = [(-1, -1, -1, count) for count in (1, *channels)]
    slot = pictures_of(conversion, shapes, tmp_path / "model.xml", backend).create_slot()

    def run(*first: int, others: Sequence[int]) -> tuple[Tensor, ...]:
        return slot.run([filled(100, *first, 1), *(filled(GRAY, *others, count) for count in channels)], [0])

    for batch, height, width in ((1, 4, 6), (2, 8, 4), (1, 5, 6), (1, 4, 6)):
        fitting = (batch, (height + 1) // 2, width // 2)
        assert run(batch, height, width, others=fitting) == (gray(100, batch, height, width),)
        for others in ((batch, 1, width // 2), (batch, *fitting[1:-1], 1), (batch, height, width), (3, *fitting[1:])):
            with pytest.raises(ServingError, match="plane 1"):
                run(batch, height, width, others=others)
    for columns in (3, 4):
        with pytest.raises(ServingError, match="plane 0"):
            run(1, 4, 7, others=(1, 2, columns))


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_a_single_plane_of_an_odd_width_is_refused(conversion: str, backend: OpenVinoBackend, tmp_path: Path) -> None:
    slot = pictures_of(conversion, [(-1, -1, -1, 1)], tmp_path / "model.xml", backend).create_slot()

    def picture(brightness: int, batch: int, height: int, width: int) -> Tensor:
        bright = np.full((batch, height, width, 1), brightness, np.uint8)
        content = np.concatenate([bright, np.full((batch, height // 2, width, 1), GRAY, np.uint8)], 1)
        return Tensor(BY_NAME["u8"], content.shape, content.tobytes())

    assert slot.run([picture(100, 2, 4, 6)], [0]) == (gray(100, 2, 4, 6),)
    with pytest.raises(ServingError, match="plane 0"):
        slot.run([filled(100, 1, 6, 7, 1)], [0])
    assert slot.run([picture(50, 1, 8, 2)], [0]) == (gray(50, 1, 8, 2),)


@pytest.mark.parametrize("known", [(1, -1, -1), (1, 4, -1), (1, -1, 6), (-1, 4, 6), (1, 4, 6)])
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_sizes_of_which_some_are_known_are_looked_at_as_well(
    conversion: str, known: Sequence[int], backend: OpenVinoBackend, tmp_path: Path
) -> None:
    _, (_, *channels) = CONVERSIONS[conversion]
    shapes = [(*known, 1), *((known[0], known[1] // 2, -1, count) for count in channels)]
    slot = pictures_of(conversion, shapes, tmp_path / "model.xml", backend).create_slot()
    planes = [filled(GRAY, 1, 2, 3, count) for count in channels]
    assert slot.run([filled(100, 1, 4, 6, 1), *planes], [0]) == (gray(100, 1, 4, 6),)
    with pytest.raises(ServingError, match="plane 1"):
        slot.run([filled(100, 1, 4, 6, 1), *(filled(GRAY, 1, 2, 1, count) for count in channels)], [0])
    if known[-1] < 0:
        with pytest.raises(ServingError, match="plane 0"):
            slot.run([filled(100, 1, 4, 7, 1), *planes], [0])


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_how_much_there_is_to_compute_of_planes_is_said_by_their_shapes(
    conversion: str, backend: OpenVinoBackend, tmp_path: Path
) -> None:
    _, (_, *channels) = CONVERSIONS[conversion]
    shapes = [(-1, 4, 6, 1), *((-1, 2, 3, count) for count in channels)]
    slot = pictures_of(conversion, shapes, tmp_path / "model.xml", backend).create_brief_slot()
    assert slot is not None
    planes = [filled(GRAY, 2, 2, 3, count) for count in channels]
    assert slot.run([filled(100, 2, 4, 6, 1), *planes], [0]) == (gray(100, 2, 4, 6),)
