"""Which states attention keeps its keys and values in, and whether a caller has left them of different rows.

As of OpenVINO 2026.4 the CPU plugin takes the rows of the one for those of both: it reads and writes past the end of
the other, or gives what lies there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import openvino as ov

from inferwire_server.core.tensors import write_shape
from inferwire_server.errors import invalid_input
from inferwire_server.openvino_backend.edges import nodes

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""The names of keys and values, of each attention."""

_Shape: TypeAlias = tuple[int, ...] | None
"""A state's shape; None of one that nothing was written to since it began."""


def pairs_of(model: Any, compiled: ov.CompiledModel) -> Pairs:
    """Give the states that attention extends by itself in a compiled model; `model` is what it was compiled from."""
    reads = [node for node in nodes(model) if node.get_type_name() == "ReadValue"]
    names = {read.get_friendly_name(): read.get_attributes()["variable_id"] for read in reads}
    return tuple(_pairs(compiled, names))


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


def attentions(compiled: ov.CompiledModel) -> Iterator[Any]:
    """Give the layers of attention, which keep keys and values in a way of their own."""
    layers: list[Any] = compiled.get_runtime_model().get_ops()
    return (layer for layer in layers if _kind(layer) == "ScaledDotProductAttention")


def _pairs(compiled: ov.CompiledModel, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for attention in attentions(compiled):
        sources = [value.get_node() for value in attention.input_values()]
        # What attention extends are its last inputs; others have no states there.
        keys, values = [names.get(source.get_friendly_name()) for source in sources[-2:]]
        if keys is not None and values is not None:
            yield keys, values


def _kind(layer: Any) -> str:
    return layer.get_rt_info()["layerType"].value


def _written(shape: _Shape) -> str:
    return "(not written)" if shape is None else write_shape(shape)
