"""A tensor's elements as JSON values: checked one by one on the way in, and on the way out.

Numbers keep their meaning or are refused: nothing is rounded to an integer, cut or wrapped.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import cast

import numpy as np
import orjson

from inferwire_proto import bf16, strings
from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensors import Array, Tensor, numbers
from inferwire_server.errors import ServingError, invalid_input

DEEPEST = 100
"""How deep data may be nested."""

WITH_ARRAYS = orjson.OPT_SERIALIZE_NUMPY
"""The option with which JSON is written that has arrays of numbers in it."""

_AT_ONCE = 1 << 16
"""How many numbers are written at once: in between, other threads have their turn."""

_SIGNED = {"i8": "b", "i16": "h", "i32": "i", "i64": "q"}
_STRUCT_CODES = _SIGNED | {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f16": "e", "f32": "f", "f64": "d"}
"""What the module struct calls the types."""


def flatten(data: object, prefix: str) -> tuple[list[object], list[int]]:
    """Take data, nested or flat, as a flat list in row-major order; give the lengths of its levels too.

    Raises:
        ServingError: INVALID_INPUT for data that is no array, ragged or too deep.
    """
    if not isinstance(data, list):
        raise invalid_input(f"{prefix} has data of {json_kind(data)}, expected an array")
    level = cast("list[object]", data)
    lengths = [len(level)]
    while level and isinstance(level[0], list):
        if set(map(type, level)) != {list}:
            raise invalid_input(f"{prefix} has data that mixes arrays and values on one level")
        rows = cast("list[list[object]]", level)
        lengths.append(len(rows[0]))
        if any(len(row) != lengths[-1] for row in rows):
            raise invalid_input(f"{prefix} has ragged data, expected arrays of equal length on each level")
        if len(lengths) > DEEPEST:
            raise invalid_input(f"{prefix} has data nested deeper than {DEEPEST} levels")
        level = list(chain.from_iterable(rows))
    return level, lengths


def check_nesting(lengths: Sequence[int], shape: Sequence[int], prefix: str) -> None:
    """Refuse data with as many levels as the shape has, but of other lengths: it is transposed.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if len(lengths) == len(shape) and tuple(lengths) != tuple(shape):
        nested, stated = ",".join(map(str, lengths)), ",".join(map(str, shape))
        raise invalid_input(f"{prefix} has data nested as [{nested}], expected [{stated}] or a flat array")


def pack(elements: list[object], element_type: ElementType, prefix: str) -> bytes:
    """Write elements as a tensor's bytes.

    Raises:
        ServingError: INVALID_INPUT for one that the type cannot hold, with its position.
    """
    if element_type.is_string:
        _check_types(elements, (str,), f"a string for {element_type.oip}", prefix)
        return strings.pack(text.encode() for text in cast("list[str]", elements))
    if element_type.name == "boolean":
        _check_types(elements, (bool,), f"true or false for {element_type.oip}", prefix)
        return bytes(cast("list[bool]", elements))
    if element_type.storage_dtype.kind in "iu":
        return _pack_integers(elements, element_type, prefix)
    return _pack_floats(elements, element_type, prefix)


def unpack(tensor: Tensor, prefix: str) -> Array | list[str] | orjson.Fragment:
    """Give a tensor's elements as a flat sequence that JSON can carry; many numbers as JSON already.

    Raises:
        ServingError: INVALID_INPUT for values JSON has no word for; it says to ask for binary.
    """
    if tensor.element_type.is_string:
        return _unpack_strings(tensor, prefix)
    array = numbers(tensor)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise _binary_only(prefix, "has a value that is NaN or infinite")
    return array if array.size <= _AT_ONCE else _written(array)


def _binary_only(prefix: str, what: str) -> ServingError:
    """Say that an output exists and JSON cannot carry it."""
    return invalid_input(f"{prefix} {what}, which JSON cannot carry; ask for it with the parameter binary_data: true")


def json_kind(value: object) -> str:
    """Name what a JSON value is."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def _written(array: Array) -> orjson.Fragment:
    pieces = (array[start : start + _AT_ONCE] for start in range(0, array.size, _AT_ONCE))
    return orjson.Fragment(b"[%b]" % b",".join([orjson.dumps(piece, option=WITH_ARRAYS)[1:-1] for piece in pieces]))


def _pack_integers(elements: list[object], element_type: ElementType, prefix: str) -> bytes:
    limits = np.iinfo(element_type.storage_dtype)
    expected = f"an integer from {limits.min} to {limits.max} for {element_type.oip}"
    _check_types(elements, (int,), expected, prefix)
    return _pack_numbers(elements, element_type, expected, prefix)


def _pack_floats(elements: list[object], element_type: ElementType, prefix: str) -> bytes:
    expected = f"a number that fits {element_type.oip}"
    _check_types(elements, (float, int), expected, prefix)
    if element_type.name == "bf16":
        return _pack_bf16(elements, expected, prefix)
    return _pack_numbers(elements, element_type, expected, prefix)


def _pack_bf16(elements: list[object], expected: str, prefix: str) -> bytes:
    with np.errstate(over="ignore"):
        values = bf16.from_float32(np.array(elements, np.float64).astype(np.float32))
    finite = np.isfinite(bf16.to_float32(values))
    if not finite.all():
        raise _unfit(elements, int(np.argmin(finite)), expected, prefix)
    return values.tobytes()


def _pack_numbers(elements: list[object], element_type: ElementType, expected: str, prefix: str) -> bytes:
    """Write numbers of the right kind. For few numbers, numpy would take several times as long."""
    code = _STRUCT_CODES[element_type.name]
    try:
        return struct.pack(f"<{len(elements)}{code}", *elements)
    except (OverflowError, struct.error) as error:
        position = next(i for i, element in enumerate(elements) if not _fits(element, f"<{code}"))
        raise _unfit(elements, position, expected, prefix) from error


def _fits(element: object, form: str) -> bool:
    try:
        struct.pack(form, element)
    except (OverflowError, struct.error):
        return False
    return True


def _unpack_strings(tensor: Tensor, prefix: str) -> list[str]:
    try:
        return [string.decode() for string in strings.unpack(tensor.data, prod(tensor.shape))]
    except UnicodeDecodeError as error:
        raise _binary_only(prefix, "has bytes that are no UTF-8 text") from error


def _check_types(elements: list[object], allowed: tuple[type, ...], expected: str, prefix: str) -> None:
    if set(map(type, elements)).difference(allowed):
        position = next(i for i, element in enumerate(elements) if type(element) not in allowed)
        raise _unfit(elements, position, expected, prefix)


def _unfit(elements: list[object], position: int, expected: str, prefix: str) -> ServingError:
    element = elements[position]
    shown = str(element).lower() if isinstance(element, bool | int | float) else json_kind(element)
    return invalid_input(f"{prefix} has {shown} at position {position}, expected {expected}")
