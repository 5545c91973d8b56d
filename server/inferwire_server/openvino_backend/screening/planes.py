"""Pictures in planes of brightness and of colours, as cameras and decoders give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes

op: Any = opset13

_CONVERSIONS = ("I420toBGR", "I420toRGB", "NV12toBGR", "NV12toRGB")

_COLOURS = 2
"""How many there are, in one plane or in a plane each."""


def fit_planes(model: Any) -> None:
    """Have a picture be of an even width, and its planes of colours of half the sizes of its brightness.

    As of OpenVINO 2026.4 the CPU plugin looks at that in known shapes alone. It reads past the end of smaller planes,
    and of a row of an odd width: the caller gets what lies there, as colours. A plane of another size cannot be given
    this one: that fails. An odd height is right where the planes of colours have a row for the last one, too.
    """
    for conversion in [node for node in nodes(model) if node.get_type_name() in _CONVERSIONS]:
        if all(value.get_partial_shape().is_static for value in conversion.input_values()):
            continue
        first, *others = conversion.inputs()
        batch, height, width = _lengths_of(first.get_source_output())
        columns = op.divide(width, np.int64(2))
        _fit(first, [batch, height, op.multiply(columns, np.int64(2)), np.array([1])])
        rows = op.divide(op.add(height, np.int64(1)), np.int64(2))
        for plane in others:
            _fit(plane, [batch, rows, columns, np.array([_COLOURS // len(others)])])


def _lengths_of(plane: Any) -> Sequence[Any]:
    """Give batch, height and width of a plane, left open: the compiler takes a single unknown length for what fits.

    No length is less than 0, which the compiler does not know. The lengths still depend on shapes alone.
    """
    shape = op.shape_of(plane)
    nothing = op.convert(op.less(op.reduce_max(shape, np.zeros(1, np.int64), True), np.int64(0)), "i64")
    return op.split(op.add(shape, nothing), np.int64(0), 4).outputs()[:-1]


def _fit(plane: Any, shape: Sequence[Any]) -> None:
    """Give a plane a shape: the lengths of batch, height, width and channels."""
    name = f"plane {plane.get_index()} of {plane.get_node().get_friendly_name()}"
    lead([plane], op.reshape(plane.get_source_output(), op.concat(shape, 0), False, name=name).output(0))
