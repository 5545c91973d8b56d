"""Outputs that users add to a model: how they name them, and which of the model's outputs they have become.

Owns the conversion of the names, as pybind11 does it for `openvino.Model.add_outputs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeAlias, cast

from inferwire.arguments import as_integer, is_list, not_castable
from inferwire.graph.ports import Output
from inferwire_proto.added_outputs import AddedOutput

Addable: TypeAlias = Output | str | tuple[str, SupportsIndex]
"""An output of a node, a tensor's name, or a node's friendly name with the position of the output."""

_POSITIONS = range(-(2**31), 2**31)


def as_added(outputs: object) -> tuple[AddedOutput, ...]:
    """Convert what users pass: one, or a list of them.

    Raises:
        TypeError: For what names no output.
        IndexError: For a tuple of less than two items.
        RuntimeError: For a tuple of other items than a name and a position.
    """
    if is_list(outputs):
        return tuple(_as_added(each, f" at index {at}") for at, each in enumerate(outputs))
    return (_as_added(outputs, ""),)


def output_of(outputs: Iterable[Output], added: AddedOutput) -> Output | None:
    """Find the model's output that an added one has become, or was already; None if it was not added."""
    for port in outputs:
        source = port.description.source
        if isinstance(added, str):
            is_it = added in port.names
        else:
            # A model's own output is named by its "Result".
            is_it = added in ((port.description.node_name, 0), source and (source.node_name, source.index))
        if is_it:
            return port
    return None


def _as_added(output: object, where: str) -> AddedOutput:
    match output:
        case str():
            return output
        case Output():
            return output.node.name, output.index
        case tuple():
            items = cast("tuple[Any, ...]", output)
            return _cast(items[0], items[0] if isinstance(items[0], str) else None), _position(items[1])
        case _:
            raise TypeError(f"Incorrect type of a value to add as output{where}.")


def _position(value: object) -> int:
    index = as_integer(value)
    # None is tested for first: a range would compare it with each of its numbers.
    return _cast(value, None if index is None or index not in _POSITIONS else index)


def _cast(value: object, fitting: Any) -> Any:
    if fitting is None:
        raise not_castable(value)
    return fitting
