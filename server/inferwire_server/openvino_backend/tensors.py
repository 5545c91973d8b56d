"""Translates between the server's tensors and OpenVINO's, without a copy where that is possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import openvino as ov

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensor_checks import check_content, is_left_to_slot, strings_of
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import bug, invalid_input

_ARRAY_BYTES = 1 << 20
"""The most bytes of an array in which strings are given to OpenVINO, unless it has one string alone."""

_READ_AT_ONCE = 64
"""How many strings are read from OpenVINO in one array. How long they are is not known before."""


def to_runtime(tensor: Tensor, prefix: str = "the tensor", is_text: bool = False) -> ov.Tensor:
    """View a tensor's bytes as OpenVINO's, copying only strings and misaligned bytes.

    Raises:
        ServingError: INVALID_INPUT with a sentence that starts with `prefix`, for bytes that are no strings or
            booleans, if nobody has looked at them before, for strings that OpenVINO would not get whole, and for those
            of a text that are not UTF-8.
    """
    runtime_type = getattr(ov.Type, tensor.element_type.name)
    shape = list(tensor.shape)
    if tensor.element_type.is_string:
        # OpenVINO makes as many strings as the shape says at once: first make sure that they are there.
        values = list(strings_of(prefix, tensor))
        _check_ends(prefix, values)
        if is_text:
            _check_encoding(prefix, values)
        return _filled(values, shape)
    if is_left_to_slot(tensor):
        check_content(prefix, tensor)
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
        return Tensor(element_type, tuple(tensor.shape), strings.pack(_strings_of(tensor)))
    array = tensor.data
    # numpy gives the shape far faster than OpenVINO's Shape gives its items. Packed types are flat in numpy.
    shape = tuple(tensor.shape) if element_type.is_packed else array.shape
    return Tensor(element_type, shape, array.tobytes())


def view_of(tensor: ov.Tensor, element_type: ElementType) -> Tensor:
    """Show a tensor's bytes in OpenVINO's memory, where the next inference writes over them. Strings are copied."""
    if element_type.is_string:
        return from_runtime(tensor, element_type)
    return Tensor(element_type, tuple(tensor.shape), tensor.data.reshape(-1).view(np.uint8).data.toreadonly())


def _check_ends(prefix: str, values: Sequence[bytes]) -> None:
    """Refuse strings that a numpy array cannot carry whole: OpenVINO's Python takes strings in nothing else."""
    for index, value in enumerate(values):
        if value.endswith(b"\0"):
            raise invalid_input(f"{prefix}: string {index} ends in a NUL byte, which OpenVINO's Python would drop")


def _check_encoding(prefix: str, values: Sequence[bytes]) -> None:
    """Refuse strings that are not UTF-8."""
    for index, value in enumerate(values):
        try:
            value.decode()
        except UnicodeDecodeError as error:
            raise invalid_input(
                f"{prefix}: string {index} is not UTF-8, as the model's regular expressions need it: {error.reason} "
                f"at byte {error.start}"
            ) from error


def _filled(values: Sequence[bytes], shape: Sequence[int]) -> ov.Tensor:
    """Make a tensor of strings, some at a time: in a numpy array each string takes as much room as the longest."""
    filled = ov.Tensor(ov.Type.string, ov.Shape([len(values)]))
    for start, end in _runs(values):
        _part(filled, (start,), (end,)).bytes_data = np.array(values[start:end], np.bytes_)
    filled.shape = shape
    return filled


def _strings_of(tensor: ov.Tensor) -> Iterator[bytes]:
    """Read strings, some at a time, for the same reason. Reading an empty tensor would divide by zero in OpenVINO."""
    for begin, end in _blocks(tuple(tensor.shape), _READ_AT_ONCE) if tensor.size else ():
        part = _part(tensor, begin, end)
        array = part.bytes_data.reshape(-1)
        # If all are empty, OpenVINO gives each as one byte of memory that was never written to.
        yield from map(bytes, array if array.itemsize > 1 else _beside_a_longer_one(part))


def _beside_a_longer_one(tensor: ov.Tensor) -> np.ndarray[Any, Any]:
    """Read strings together with one more, of two bytes, so that the empty ones are given as such."""
    count = tensor.size
    flat = ov.Tensor(ov.Type.string, tensor.shape)
    _copy(tensor, flat)
    flat.shape = [count]
    longer = ov.Tensor(ov.Type.string, ov.Shape([count + 1]))
    _copy(flat, _part(longer, (0,), (count,)))
    _part(longer, (count,), (count + 1,)).bytes_data = np.array([b"--"])
    return longer.bytes_data[:count]


def _copy(source: Any, target: ov.Tensor) -> None:
    # `Any`, because the types of OpenVINO's `copy_to` name remote tensors, which they do not define.
    source.copy_to(target)


def _blocks(shape: tuple[int, ...], most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cut a shape into blocks of so many elements at the most, in their order, and give where each begins and ends."""
    if prod(shape) <= most:
        yield (0,) * len(shape), shape
    elif prod(shape[1:]) > most:
        for at in range(shape[0]):
            for begin, end in _blocks(shape[1:], most):
                yield (at, *begin), (at + 1, *end)
    else:
        step = most // prod(shape[1:])
        for at in range(0, shape[0], step):
            yield (at, *(0,) * (len(shape) - 1)), (min(at + step, shape[0]), *shape[1:])


def _runs(values: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Cut strings into runs that take at most `_ARRAY_BYTES` as an array. A longer string is a run by itself."""
    start = longest = 0
    for at, value in enumerate(values):
        longest = max(longest, len(value))
        if (at + 1 - start) * longest > _ARRAY_BYTES and at > start:
            yield start, at
            start, longest = at, len(value)
    if values:
        yield start, len(values)


def _part(tensor: ov.Tensor, begin: Sequence[int], end: Sequence[int]) -> ov.Tensor:
    return ov.Tensor(tensor, ov.Coordinate(begin), ov.Coordinate(end))
