"""Which states attention keeps its keys and values in, and whether a caller has left them of different rows.

As of OpenVINO 2026.4 the CPU plugin takes the rows of the one for those of both: it reads and writes past the end of
the other, or gives what lies there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from inferwire_server.core.tensors import write_shape
from inferwire_server.errors import invalid_input
from inferwire_server.openvino_backend.edges import nodes

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""The names of keys and values, of each attention."""

_BETWEEN = ("Broadcast", "Concat", "Convert", "Gather", "Multiply", "Reshape", "Transpose", "Unsqueeze")
"""What there may be between a state and the attention that extends it."""

_Shape: TypeAlias = tuple[int, ...] | None
"""A state's shape; None of one that nothing was written to since it began."""


def pairs_of(model: Any) -> Pairs:
    """Give the states that attention in a graph takes as keys and values with what is joined to them."""
    return tuple(_pairs(model))


def check_rows(model: str, names: tuple[str, str], keys: _Shape, values: _Shape) -> None:
    """Refuse keys and values that are not of the same rows: that differ in more than the length of each row.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if (keys and keys[:-1]) != (values and values[:-1]):
        described = [f"'{name}' {_written(shape)}" for name, shape in zip(names, (keys, values), strict=True)]
        raise invalid_input(
            f"states {' and '.join(described)} are keys and values of the same attention in model '{model}', expected "
            "shapes that differ in the last dimension at most: write or reset both"
        )


def _pairs(model: Any) -> Iterator[tuple[str, str]]:
    for node in nodes(model):
        if node.get_type_name() == "ScaledDotProductAttention":
            keys, values = _extended(node.input_value(1)), _extended(node.input_value(2))
            if keys is not None and values is not None:
                yield keys, values


def _extended(value: Any) -> str | None:
    """Give the state that a value is joined to, whatever chooses, repeats or turns its rows."""
    node, is_joined = value.get_node(), False
    while node.get_type_name() in _BETWEEN:
        is_joined = is_joined or node.get_type_name() == "Concat"
        node = node.input_value(0).get_node()
    return node.get_attributes()["variable_id"] if is_joined and node.get_type_name() == "ReadValue" else None


def _written(shape: _Shape) -> str:
    return "(not written)" if shape is None else write_shape(shape)
