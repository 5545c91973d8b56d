"""Brings what users pass as inputs into the tensors of a request.

Owns which kinds of values are taken, what is copied and what is shared, and openvino's texts for
what is not taken. Whether a tensor fits its port is `port_fit`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, TypeAlias, TypeGuard, cast

import numpy as np

from inferwire.arguments import is_array, is_list, is_list_or_tuple, not_castable, openvino_class
from inferwire.graph.foreign_ports import as_port
from inferwire.graph.ports import Port
from inferwire.requests.ov_dict import OVDict
from inferwire.requests.request_tensors import RequestTensors
from inferwire.tensors.dense_memory import allocate
from inferwire.tensors.element_arrays import Array
from inferwire.tensors.memory import Memory, OverMemory
from inferwire.tensors.tensor import Tensor, as_tensor
from inferwire.tensors.tensor_sources import copy_array, share_array
from inferwire_proto.element_types import ElementType

Key: TypeAlias = int | str | Port | None
_ARRAY = np.ndarray
_DICT: type = dict  # a type checker would ask of `dict` itself what it holds
_SCALARS = (np.number, int, float, str)
_PLAIN_KEYS = (int, str)
_KEYS = (int, str, Port)


def bring_in(inputs: Any, tensors: RequestTensors, *, share: bool) -> None:
    """Bring the inputs of a call into a request's tensors.

    Args:
        inputs: None to keep them as they are; a single array, tensor or scalar for a model with
            one input; or several, by position, name or port.
        tensors: Where they go.
        share: Whether arrays become the request's tensors, if their type and layout allow it,
            instead of being copied into its present ones.

    Raises:
        TypeError: For a key or a value of a kind that is not taken.
        RuntimeError: For one that does not fit the model.
    """
    if inputs is None or (not share and _write_plain(inputs, tensors)):
        return
    if isinstance(inputs, _DICT):
        items = _pairs(inputs)
    else:
        inputs = as_tensor(inputs) or inputs
        items = _items(inputs, is_single=len(tensors.ports.inputs) == 1)
    if share:
        _share(inputs, items, tensors)
    elif items is None:
        _copy_single(inputs, tensors)
    else:
        _copy_items(items, tensors)


def _write_plain(inputs: Any, tensors: RequestTensors) -> bool:
    """Write one array, or several by position or name, as nearly all inputs come; tell whether that was everything.

    If it was not, some arrays may have been written all the same: the caller then writes all of the inputs.
    """
    by_key = tensors.by_key
    if type(inputs) is _ARRAY:
        if not inputs.ndim:
            return False
        _fill(by_key.get(None) or tensors.at(None), inputs)
        return True
    if not isinstance(inputs, _DICT):
        return False
    for key, value in inputs.items():
        if type(value) is not _ARRAY or (type(key) is not int and type(key) is not str) or not value.ndim:
            return False
        _fill(by_key.get(key) or tensors.at(key), value)
    return True


def _pairs(inputs: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Give a dictionary's keys and values, with other kinds of ports and tensors turned into this SDK's own."""
    return [
        (
            key if isinstance(key, _PLAIN_KEYS) else as_port(key) or key,
            value if isinstance(value, np.ndarray) else _known(value),
        )
        for key, value in inputs.items()
    ]


def _items(inputs: object, *, is_single: bool) -> list[tuple[Any, Any]] | None:
    """Give the positions and values of several inputs that are no dictionary; None for a single input."""
    if isinstance(inputs, OVDict) or openvino_class(inputs) == "OVDict":
        return list(enumerate(cast("OVDict", inputs).values()))
    if is_list(inputs) and is_single and _is_plain(inputs):
        return [(0, inputs)]
    if is_list_or_tuple(inputs):
        return [(at, _known(value)) for at, value in enumerate(inputs)]
    return None


def _known(value: Any) -> Any:
    """Give a `Tensor` for a remote tensor or one of openvino's, and any other value as it is."""
    return as_tensor(value) or value if isinstance(value, OverMemory) or openvino_class(value) else value


def _is_plain(items: list[Any]) -> bool:
    """Tell whether a list, or the lists in it, holds numbers and strings alone: one tensor's data."""
    rows: Iterable[list[Any]] = (item if is_list(item) else [item] for item in items)
    return all(isinstance(item, str | float | int | bytes) for row in rows for item in row)


def _copy_single(value: object, tensors: RequestTensors) -> None:
    if _is_array_like(value) and not _is_scalar(value):
        _write(np.asarray(value), tensors, None)
    elif isinstance(value, Tensor | bytes) or _is_scalar(value):
        tensors.place(None, _memory_of(value, tensors, None, share=False))
    else:
        raise TypeError(f"Incompatible inputs of type: {type(value)}")


def _copy_items(items: list[tuple[Any, Any]], tensors: RequestTensors) -> None:
    """Write arrays into the request's tensors; place tensors only once everything else has been accepted."""
    placed: list[tuple[Key, Memory]] = []
    for key, value in items:
        if not isinstance(key, _KEYS):
            raise TypeError(f"Incompatible key type for input: {key}")
        if is_array(value):
            _write(value, tensors, key)
        elif _is_scalar(value):
            tensors.place(key, _memory_of(value, tensors, key, share=False))
        elif _is_array_like(value):
            _write(np.asarray(value), tensors, key)
        elif isinstance(value, Tensor):
            placed.append((key, value.memory))
        elif is_list(value):
            placed.append((key, copy_array(np.array(value))))
        else:
            raise TypeError(f"Incompatible inputs of type: {type(value)} under {key} key!")
    for key, memory in placed:
        tensors.place(key, memory)


def _share(inputs: object, items: list[tuple[Any, Any]] | None, tensors: RequestTensors) -> None:
    if items is None:
        value = inputs if _is_scalar(inputs) else _c_style(inputs)  # numpy's scalars are array-likes as well
        tensors.place(None, _memory_of(value, tensors, None, share=True))
        return
    placed = [(key, _memory_of(_c_style(value), tensors, key, share=True)) for key, value in items]
    for key, memory in placed:
        if not isinstance(key, _KEYS):
            raise not_castable(key)
        tensors.place(key, memory)


def _write(array: Array, tensors: RequestTensors, key: Key) -> None:
    """Copy an array into the present tensor, which takes its shape; numpy casts."""
    if array.ndim == 0:
        tensors.place(key, _memory_of(array, tensors, key, share=False))
        return
    _fill(tensors.at(key), array)


def _fill(memory: Memory, array: Array) -> None:
    """Copy an array into memory, which takes its shape."""
    shape = array.shape
    if memory.shape != shape:
        memory.set_shape(shape)
    if memory.element_type.is_string:
        Tensor.over(memory).bytes_data = array
    else:
        memory.write(array)


def _memory_of(value: object, tensors: RequestTensors, key: Key, *, share: bool) -> Memory:
    """Give the memory of the tensor that a value stands for; a tensor's own memory is not copied."""
    if isinstance(value, Tensor):
        return value.memory
    if is_array(value):
        return _memory_of_array(value, _present(tensors, key), share=share)
    if is_list(value):
        return copy_array(np.array(value))
    if isinstance(value, bytes) or _is_scalar(value):
        return _memory_of_scalar(np.array(value), _present(tensors, key).element_type)
    raise TypeError(f"Incompatible inputs of type: {type(value)}")


def _present(tensors: RequestTensors, key: object) -> Memory:
    """Give the memory of the tensor whose place another one is to take."""
    if key is not None and not isinstance(key, _KEYS):
        raise TypeError(f"Unsupported key type: {type(key)} for Tensor under key: {key}")
    return tensors.at(key)


def _memory_of_scalar(array: Array, element_type: ElementType) -> Memory:
    return copy_array(array if element_type.is_string else array.astype(element_type.storage_dtype, copy=False))


def _memory_of_array(array: Array, target: Memory, *, share: bool) -> Memory:
    element_type = target.element_type
    if element_type.is_string:
        return copy_array(array)
    dtype = element_type.storage_dtype
    if array.ndim == 0 and (array.dtype != dtype or target.shape):
        shape = target.shape if prod(target.shape) else (1,)
        return copy_array(array.astype(dtype).reshape(shape))
    if element_type.name == "bf16":
        return _filled(element_type, array.shape, array.view(dtype))  # as openvino does: bits, whatever their type is
    if not array.flags.writeable:
        return _filled(element_type, array.shape, array)
    if array.dtype != dtype:
        return copy_array(array.astype(dtype))
    return share_array(array) if share else copy_array(array)


def _filled(element_type: ElementType, shape: tuple[int, ...], content: Array) -> Memory:
    """Make memory and copy the content into it."""
    memory = allocate(element_type, shape)
    memory.write(content)
    return memory


def _c_style(value: object) -> object:
    if not is_array(value):
        if not _is_array_like(value):
            return value
        value = np.asarray(value)
    return np.ascontiguousarray(value) if value.ndim else value


def _is_scalar(value: object) -> TypeGuard[Any]:
    return isinstance(value, _SCALARS)


def _is_array_like(value: object) -> TypeGuard[Any]:
    return hasattr(value, "__array__")
