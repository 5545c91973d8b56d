"""Conversion of elements to an input's type: it may lose precision, but not a number's meaning. Knows no server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferwire.graph.described import PortDescription
from inferwire.tensors.tensor import Tensor
from inferwire.values.types import Type
from inferwire_cli.terminal import CommandError
from inferwire_proto import bf16
from inferwire_proto.element_types import BY_NAME

Array = NDArray[Any]


MOST_BYTES = 2047 << 20
"""The most that any server takes in a message, whatever its settings; if it takes less, its own error says so."""


def byte_size(shape: Sequence[int], port: PortDescription) -> int:
    """Count the bytes of numbers of an input's type; for lengths that no shape has, give too many rather than none."""
    return BY_NAME[port.element_type.type_name].byte_size([max(length, 1) for length in shape])


def why_too_large(size: int, port: PortDescription) -> str:
    """Say why no server takes so many bytes for an input; empty if one does."""
    if size <= MOST_BYTES:
        return ""
    type_name, most = port.element_type.type_name, MOST_BYTES >> 20
    return f"has {size >> 20:,} MiB as {type_name}, expected at most {most:,}, the most that any server takes"


def typed(array: Array, port: PortDescription) -> Array:
    """Give an array the type of an input.

    Raises:
        CommandError: If its elements are of a kind that the input does not take, or one does not fit.
    """
    refuse_packed(port)
    element_type = port.element_type
    try:
        if element_type.integral_number and _has_integers(array):
            return _as_integers(array, port)
        if element_type.real:
            return _as_floats(array, port)
        return array.astype(element_type.to_dtype(), casting="same_kind", copy=False)
    except TypeError:
        for position, each in enumerate(array.flat):
            if isinstance(each, str):
                said = f"input '{port.oip_name}' has a string at position {position}, expected a number"
                raise CommandError(said) from None
        raise CommandError(f"input '{port.oip_name}' is of {array.dtype}, expected {element_type.type_name}") from None


def refuse_packed(port: PortDescription) -> None:
    """Refuse an input whose elements numpy has no type for: only programs can make them.

    Raises:
        CommandError: If several elements of the input share a byte.
    """
    element_type = BY_NAME[port.element_type.type_name]
    if element_type.is_packed:
        raise CommandError(
            f"input '{port.oip_name}' takes {element_type.name}, elements that share bytes: only programs can make them"
        )


def as_texts(array: Array, port: PortDescription) -> Array:
    """Give an array for an input that takes texts.

    Raises:
        CommandError: If an element is no text.
        UnicodeEncodeError: If a text cannot be sent.
    """
    for position, each in enumerate(array.flat):
        if isinstance(each, str):
            each.encode()
        if not isinstance(each, str | bytes):
            raise CommandError(f"input '{port.oip_name}' has {each} at position {position}, expected a text")
    return array


def as_input(array: Array) -> Array | Tensor:
    """Give what the SDK takes: texts as a tensor, since numpy's own type for byte strings cuts zeros off their ends."""
    if array.dtype.kind != "O":
        return array
    tensor = Tensor(Type.string, array.shape)
    tensor.memory.write(array)
    return tensor


def _has_integers(array: Array) -> bool:
    """Whether all elements are integers; for those beyond 64 bits, numpy's type is object."""
    return array.dtype.kind in "iu" or (array.dtype.kind == "O" and all(type(each) is int for each in array.flat))


def _as_integers(array: Array, port: PortDescription) -> Array:
    dtype = port.element_type.to_dtype()
    limits = np.iinfo(dtype)
    fits = (array >= limits.min) & (array <= limits.max)
    _require(fits, array, port, f"an integer from {limits.min} to {limits.max} for {port.element_type.type_name}")
    return array.astype(dtype, copy=False)


def _as_floats(array: Array, port: PortDescription) -> Array:
    given = array
    if array.dtype.kind == "O" and _has_integers(array):
        given = np.array([_as_float(each) for each in array.flat]).reshape(array.shape)
    with np.errstate(over="ignore"):
        if port.element_type == Type.bf16:
            bits = bf16.from_float32(given.astype(np.float32, casting="same_kind"))
            # The bits as openvino shows them, as if they were f16, and the numbers that they stand for.
            floats, numbers = bits.view(np.float16), bf16.to_float32(bits)
        else:
            floats = numbers = given.astype(port.element_type.to_dtype(), casting="same_kind", copy=False)
    was_infinite = given is array and np.isinf(array)
    _require(~np.isinf(numbers) | was_infinite, array, port, f"a number that fits {port.element_type.type_name}")
    return floats


def _as_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")


def _require(fits: Array, array: Array, port: PortDescription, expected: str) -> None:
    fits = np.asarray(fits, bool).reshape(-1)
    if not fits.all():
        position = int(np.argmin(fits))
        raise CommandError(
            f"input '{port.oip_name}' has {array.reshape(-1)[position]} at position {position}, expected {expected}"
        )
