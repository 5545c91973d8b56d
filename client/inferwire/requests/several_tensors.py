"""Reads what setters take of several tensors at once: a dictionary's items, or those of a batch.

Owns openvino's errors for what is none. Where the tensors go is not known here.
"""

from __future__ import annotations

from inferwire.arguments import not_castable
from inferwire.graph.foreign_ports import as_port
from inferwire.graph.ports import Port
from inferwire.tensors.memory import Memory
from inferwire.tensors.tensor import as_tensor


def by_any_key(key: object, value: object) -> tuple[str | int | Port, Memory]:
    """Read an item of a dictionary whose keys are names, positions and ports."""
    tensor = as_tensor(value)
    if tensor is None:
        raise TypeError(f"Unable to cast {type(value)} object to ov::Tensor")
    known = as_port(key) or key
    if not isinstance(known, str | int | Port):
        raise not_castable(key)
    return known, tensor.memory


def by_position(key: object, value: object) -> tuple[int, Memory]:
    """Read an item of a dictionary whose keys are positions."""
    if not isinstance(key, int):
        raise TypeError("incompatible function arguments!")
    tensor = as_tensor(value)
    if tensor is None:
        raise RuntimeError(f"Unable to cast tensor {int(key)}!")
    return key, tensor.memory


def memory_of_items(tensors: list[object]) -> list[Memory]:
    """Give the memory of a batch's tensors."""
    items: list[Memory] = []
    for each in tensors:
        if (tensor := as_tensor(each)) is None:
            raise RuntimeError(f"Unable to cast Python instance of type {type(each)} to ov::Tensor")
        items.append(tensor.memory)
    return items
