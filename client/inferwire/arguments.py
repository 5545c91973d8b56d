"""How arguments are accepted and refused: as pybind11 does it for OpenVINO's classes.

Owns the conversion of integers and integer sequences and the text of the errors. It knows
nothing of tensors, shapes or ports.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, KeysView, Mapping, Set, Sized, ValuesView
from enum import Enum
from types import GeneratorType
from typing import Any, NoReturn, TypeGuard, TypeVar, cast

import numpy as np

E = TypeVar("E", bound=Enum)

SIZE_LIMIT = 2**64
"""Sizes are unsigned 64-bit integers in OpenVINO."""

_MOST_DIGITS = len(str(SIZE_LIMIT))

_NO_SIZES = (str, bytes, bytearray, Mapping, np.generic)
_ALSO_SIZES = (GeneratorType, map, zip, Set, KeysView, ValuesView)
"""Types that have no items by position and are taken all the same; other iterators, as `filter`, are not."""

INT64_MAX = 2**63 - 1
"""The largest dimension; it also stands for one without an upper bound."""


class Unpicklable:
    """Refuses copy, deepcopy and pickle, as OpenVINO's objects do unless they say otherwise."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        del protocol
        raise TypeError(f"cannot pickle 'inferwire.{type(self).__name__}' object")


def openvino_class(value: object) -> str:
    """Name the class of an object of openvino's, if that is installed beside the client; empty for any other object.

    Openvino is not imported for this, because the module of the object's class tells.
    """
    kind = type(value)
    return kind.__name__ if kind.__module__.partition(".")[0] == "openvino" else ""


def as_member(value: object, choices: type[E]) -> E | None:
    """Take a member of an enumeration, or of openvino's enumeration of the same name; None for anything else."""
    if isinstance(value, choices):
        return value
    # Two of openvino's classes are named Type, and only one of them is an enumeration.
    return choices.__members__.get(getattr(value, "name", "")) if openvino_class(value) == choices.__name__ else None


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a value is a list, whatever it holds."""
    return isinstance(value, list)


def is_array(value: object) -> TypeGuard[np.ndarray[Any, Any]]:
    """Tell whether a value is a numpy array, whatever it holds."""
    return isinstance(value, np.ndarray)


def is_list_or_tuple(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Tell whether a value is a list or a tuple, whatever it holds."""
    return isinstance(value, list | tuple)


def as_integer(value: object) -> int | None:
    """Convert what has an exact integer value; floats and strings have none."""
    if type(value) is int:
        return value
    try:
        return int(operator.index(cast("Any", value)))  # `index` leaves a bool as it is
    except TypeError:
        return None


def as_size(value: object) -> int | None:
    """Convert to an integer from 0 to 2**64 - 1; None for anything else."""
    number = value if type(value) is int else as_integer(value)
    return number if number is not None and 0 <= number < SIZE_LIMIT else None


def size_in(text: str) -> int | None:
    """Read the digits of an integer from 0 to 2**64 - 1; None for any other text."""
    digits = text.lstrip("0") or text[-1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:  # Python refuses to read thousands
        return None
    return as_size(int(digits))


def as_sizes(value: object) -> tuple[int, ...] | None:
    """Convert a sequence of sizes, or what else pybind11 takes for one; None for anything else.

    It uses up a generator, so call it after all other checks that may refuse a set of arguments.
    """
    if not isinstance(value, _ALSO_SIZES):
        if isinstance(value, _NO_SIZES) or not hasattr(type(value), "__getitem__"):
            return None
        len(cast("Sized", value))  # raises if there is none, as for a shape of unknown rank
    sizes: list[int] = []
    for item in cast("Iterable[object]", value):
        size = as_size(item)
        if size is None:
            return None
        sizes.append(size)
    return tuple(sizes)


def in_order(
    args: tuple[object, ...], keywords: Mapping[str, object], *forms: tuple[str, ...]
) -> tuple[Any, ...] | None:
    """Put arguments in the order of a function's parameters; None if they fit none of its forms.

    A form is the names of all its parameters. Of the forms that fit, the first counts.
    """
    for form in forms:
        named = form[len(args) :]
        if len(args) + len(keywords) == len(form) and set(keywords) == set(named):
            return (*args, *(keywords[name] for name in named))
    return None


def position(function: str, owner: object, index: object, length: int) -> int:
    """Convert an index from 0 to length - 1.

    Raises:
        TypeError: For what is no size, negative numbers among them.
        IndexError: Past the end, where OpenVINO reads or writes foreign memory.
    """
    size = as_size(index)
    if size is None:
        raise incompatible(function, f"(self: {type(owner).__name__}, index: int)", invoked=(owner, index))
    if size >= length:
        raise IndexError(f"index {size} is out of range for {owner!r} of length {length}")
    return size


def not_castable(value: object) -> RuntimeError:
    """Build the RuntimeError for a value that fails to be converted after its function has taken it."""
    return RuntimeError(f"Unable to cast Python instance of type {type(value)} to C++ type '?'")


def incompatible(
    function: str,
    *signatures: str,
    invoked: tuple[object, ...] = (),
    keywords: Mapping[str, object] | None = None,
) -> TypeError:
    """Build the TypeError for arguments that fit none of a function's signatures."""
    kind = "constructor" if function == "__init__" else "function"
    listed = "\n".join(f"    {number}. {signature}" for number, signature in enumerate(signatures, 1))
    given = ", ".join(repr(argument) for argument in invoked)
    if keywords:
        named = ", ".join(f"{name}={value!r}" for name, value in keywords.items())
        given = f"{given}; kwargs: {named}" if given else f"kwargs: {named}"
    return TypeError(
        f"{function}(): incompatible {kind} arguments. The following argument types are supported:\n"
        f"{listed}\n\nInvoked with: {given}"
    )
