"""What a tensor can be made of: one function for each way, tried in OpenVINO's order.

Owns the constructor overloads of `Tensor`; memory itself is in `inferwire.tensors.memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from inferwire.arguments import as_sizes, in_order, incompatible, is_array, is_list
from inferwire.graph.ports import Port
from inferwire.tensors.dense_memory import Dense, allocate
from inferwire.tensors.element_arrays import Array, objects
from inferwire.tensors.memory import Memory
from inferwire.user_warnings import warn
from inferwire.values.types import Type, element_type_of
from inferwire_proto.element_types import ElementType

_NOT_SHARED = "SHARED MEMORY MODE FOR THIS TENSOR IS NOT APPLICABLE!"

SIGNATURES = (
    "Tensor(array: numpy.ndarray, shared_memory: bool = False)",
    "Tensor(array: numpy.ndarray, shape: Shape | Sequence[int], type: Type = Type.dynamic)",
    "Tensor(list: list)",
    "Tensor(type: Type | numpy.dtype | object, shape: Shape | Sequence[int])",
    "Tensor(port: ConstOutput)",
    "Tensor(port: ConstOutput, array: numpy.ndarray)",
    "Tensor(other: Tensor, begin: Coordinate | Sequence[int], end: Coordinate | Sequence[int])",
    "Tensor(image: object)",
)


def memory_from(args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Memory:
    """Make the memory that a tensor constructor's arguments ask for.

    A tensor that shares another's memory comes here as that memory.

    Raises:
        TypeError: If they fit no overload.
        RuntimeError: If the values do not go together.
        ValueError: For shared memory that cannot be written to.
    """
    for form in _FORMS:
        bound = form.bind(args, keywords)
        memory = None if bound is None else form.build(*bound)
        if memory is not None:
            return memory
    raise incompatible("__init__", *SIGNATURES, invoked=args, keywords=keywords)


@dataclass(frozen=True, slots=True)
class _Form:
    """One overload: its parameters, and a function that makes the memory, or gives None if the arguments do not fit."""

    parameters: tuple[str, ...]
    required: int
    build: Callable[..., Memory | None]

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Put the arguments in order; None if there are too many, too few or unknown ones."""
        counts = range(self.required, len(self.parameters) + 1)
        return in_order(args, keywords, *(self.parameters[:count] for count in counts))


def _of_array(array: object, shared_memory: object = False) -> Memory | None:
    if not is_array(array) or not isinstance(shared_memory, bool | np.bool_):
        return None
    return share_array(array) if shared_memory else copy_array(array)


def _view(array: object, shape: object, element_type: object = Type.dynamic) -> Memory | None:
    if not is_array(array) or not isinstance(element_type, Type) or (sizes := as_sizes(shape)) is None:
        return None
    own = Type(array.dtype)
    wanted = element_type_of(own if element_type.is_dynamic() else element_type)
    if own is Type.string or wanted.is_string:
        raise RuntimeError(f"{_NOT_SHARED} String types can be only copied.")
    return _reinterpret(array, sizes, wanted)


def _of_list(items: object) -> Memory | None:
    return copy_array(np.array(items)) if is_list(items) else None


def _of_type(element_type: Any, shape: object) -> Memory | None:
    sizes = as_sizes(shape)
    if sizes is None:
        return None
    known = element_type if isinstance(element_type, Type) else Type(element_type)
    return allocate(element_type_of(known), sizes)


def _of_port(port: object) -> Memory | None:
    return allocate(element_type_of(port.element_type), _sizes(port)) if isinstance(port, Port) else None


def _over_port(port: object, array: object) -> Memory | None:
    if not isinstance(port, Port) or not is_array(array):
        return None
    return _crop(element_type_of(port.element_type), _sizes(port), array)


def _sizes(port: Port) -> tuple[int, ...]:
    return tuple(port.shape) if port.partial_shape.is_static else (0,)


def _of_region(other: object, begin: object, end: object) -> Memory | None:
    if not isinstance(other, Memory):
        return None
    first, last = as_sizes(begin), as_sizes(end)
    return None if first is None or last is None else other.region(first, last)


def _of_image(image: object) -> Memory:
    if not any(each.__name__ == "Image" and each.__module__ == "PIL.Image" for each in type(image).__mro__):
        raise TypeError("Input argument must be a PIL.Image.Image/numpy.array/list[int, float, str] object")
    return copy_array(np.array(image))


_FORMS = (
    _Form(("array", "shared_memory"), 1, _of_array),
    _Form(("array", "shape", "type"), 2, _view),
    _Form(("list",), 1, _of_list),
    _Form(("port",), 1, _of_port),
    _Form(("port", "array"), 2, _over_port),
    _Form(("other", "begin", "end"), 3, _of_region),
    _Form(("type", "shape"), 2, _of_type),
    _Form(("image",), 1, _of_image),
)


def copy_array(array: Array) -> Memory:
    """Make memory with the elements of an array.

    Raises:
        RuntimeError: For a dtype without an element type.
    """
    element_type = element_type_of(Type(array.dtype))
    if element_type.is_string:
        return Dense(element_type, array.shape, string_objects(array), own=True)
    return Dense(
        element_type, array.shape, np.array(array, element_type.storage_dtype, order="C").reshape(-1), own=True
    )


def share_array(array: Array) -> Memory:
    """Make memory that is an array's own.

    Raises:
        RuntimeError: For strings, gaps, another order of bytes, or a dtype without an element type.
        ValueError: For a read-only array.
    """
    element_type = element_type_of(Type(array.dtype))
    if element_type.is_string:
        raise RuntimeError(f"{_NOT_SHARED} String types can be only copied.")
    _require_contiguous(array)
    if not array.flags.writeable:
        raise ValueError("array is not writeable")
    _require_little_endian(array, element_type)
    return Dense(element_type, array.shape, np.asarray(array).reshape(-1), own=False)


def _crop(element_type: ElementType, shape: tuple[int, ...], array: Array) -> Memory:
    """Share as much of an array as a port takes, its bytes read as the port's type."""
    own = Type(array.dtype)
    if own is Type.string:
        raise RuntimeError(f"{_NOT_SHARED} String types can be only copied.")
    is_cast = element_type_of(own) != element_type
    _require_contiguous(array)
    if is_cast:
        warn("Type of the array and the port are different. Data is going to be casted.", RuntimeWarning)
    if prod(shape) > array.size:
        raise RuntimeError("Shape of the port exceeds shape of the array.")
    if 0 < prod(shape) < array.size:  # a dynamic shape takes nothing, and is not warned of
        warn("Shape of the port is smaller than shape of the array. Passed data will be cropped.", RuntimeWarning)
    return _reinterpret(array, shape, element_type)


def _reinterpret(array: Array, shape: tuple[int, ...], element_type: ElementType) -> Memory:
    _require_contiguous(array)
    needed = element_type.byte_size(shape)
    if needed > array.nbytes:
        raise RuntimeError(
            f"a tensor of type {element_type.name} and shape {list(shape)} needs {needed} bytes, "
            f"the array has {array.nbytes}"
        )
    flat = np.asarray(array).reshape(-1).view(np.uint8)
    return Dense(element_type, shape, flat[:needed].view(element_type.storage_dtype), own=False)


def _require_contiguous(array: Array) -> None:
    if not array.flags.c_contiguous:
        raise RuntimeError(f"{_NOT_SHARED} Passed numpy array must be C contiguous.")


def _require_little_endian(array: Array, element_type: ElementType) -> None:
    if array.dtype != element_type.storage_dtype:
        raise RuntimeError(f"{_NOT_SHARED} Passed numpy array has dtype {array.dtype.str}, not little-endian.")


def string_objects(array: Array) -> Array:
    """Flatten an array of 'S' or 'U' to byte strings, text as UTF-8."""
    items = array.reshape(-1).tolist()
    return objects(items if array.dtype.kind == "S" else [item.encode() for item in items])
