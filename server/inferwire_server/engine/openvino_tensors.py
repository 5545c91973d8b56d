"""Between the server's tensors and OpenVINO's, without a copy wherever that can be."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import openvino as ov

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import bug


def to_runtime(tensor: Tensor) -> ov.Tensor:
    """View a tensor's bytes as OpenVINO's, copying only strings and misaligned bytes."""
    runtime_type = getattr(ov.Type, tensor.element_type.name)
    shape = list(tensor.shape)
    if tensor.element_type.is_string:
        # As many as a shape says are made at once: first see that they are there.
        values = strings.unpack(tensor.data, prod(shape))
        filled = ov.Tensor(runtime_type, ov.Shape(shape))
        if values:
            filled.bytes_data = _nested(values, shape)
        return filled
    storage = tensor.element_type.storage_dtype
    if not tensor.byte_size:
        if prod(shape):
            raise bug(f"{tensor!r} would be of memory that nobody has written to")
        return ov.Tensor(runtime_type, ov.Shape(shape))
    array = np.frombuffer(tensor.data, storage)
    if not array.flags.aligned:
        array = array.copy()
    if not tensor.element_type.is_packed:
        array = array.reshape(shape)
    return ov.Tensor(array, ov.Shape(shape), runtime_type)


def from_runtime(tensor: ov.Tensor, element_type: ElementType) -> Tensor:
    """Copy a tensor's bytes out of OpenVINO's memory."""
    if element_type.is_string:
        # Reading no strings at all divides by zero in OpenVINO, which ends the process.
        data = strings.pack(bytes(string) for string in tensor.bytes_data.reshape(-1)) if tensor.size else b""
        return Tensor(element_type, tuple(tensor.shape), data)
    array = tensor.data
    # numpy knows the shape far sooner than OpenVINO's Shape gives its items; packed types are flat there.
    shape = tuple(tensor.shape) if element_type.is_packed else array.shape
    return Tensor(element_type, shape, array.tobytes())


def view_of(tensor: ov.Tensor, element_type: ElementType) -> Tensor:
    """Show a tensor's bytes in OpenVINO's memory, where the next inference writes over them. Strings are copied."""
    if element_type.is_string:
        return from_runtime(tensor, element_type)
    return Tensor(element_type, tuple(tensor.shape), tensor.data.reshape(-1).view(np.uint8).data.toreadonly())


def _nested(values: list[bytes], shape: Sequence[int]) -> np.ndarray[Any, np.dtype[np.bytes_]]:
    return np.array(values, dtype=np.bytes_).reshape(shape)
