"""A property's value with its type: `OVAny`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from inferwire.arguments import Unpicklable, is_list, is_list_or_tuple, openvino_class
from inferwire.values.any_texts import as_text, read

_SIMPLE = (bool, int, float, str)


class OVAny(Unpicklable):
    """A value of any type that properties have. Mirrors `openvino.OVAny`.

    It compares and hashes as its value does; its items are those of the value.

    Bytes, and numpy's numbers and strings, become Python's own values if openvino converts them, too.

    Differs from OpenVINO: setting an item changes the value, while openvino changes a copy; integers have no limit, and
    empty lists, empty tuples and sets can be read.

    Example:
        >>> OVAny("3").astype(int)
        3

    Raises:
        RuntimeError: For a list of mixed types, or of bytes, None or numpy's numbers.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: object) -> None:
        self._value: Any = _checked(value)

    def __repr__(self) -> str:
        return "<OVAny class>"

    def __eq__(self, other: object) -> bool:
        return bool(self._value == _opened(other))

    def __hash__(self) -> int:
        return hash(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __getitem__(self, key: object) -> Any:
        return self._value[key]

    def __setitem__(self, key: object, item: str | int) -> None:
        self._value[key] = item

    @property
    def value(self) -> Any:
        """The value itself. Mirrors `openvino.OVAny.value`."""
        return self._value

    def get(self) -> Any:
        """Give `value`."""
        return self._value

    def set(self, value: object) -> None:
        """Replace the value. Mirrors `openvino.OVAny.set`.

        Raises:
            RuntimeError: For a list that the constructor refuses.
        """
        self._value = _checked(value)

    def astype(self, dtype: type) -> Any:
        """Convert to bool, int, float, str or dict, whose values are an `OVAny` each, or a dict for a mapping.

        Mirrors `openvino.OVAny.astype`.

        Raises:
            RuntimeError: If the value does not convert to it.
        """
        if dtype is dict:
            return _items(self._value)
        _check(dtype)
        if isinstance(self._value, str):
            return read(dtype, self._value)
        return as_text(self._value) if dtype is str else self._number(dtype)

    def aslist(self, dtype: type | None = None) -> list[Any]:
        """Convert to a list: text by reading each word as a bool, int, float or str; lists and tuples keep their items.

        Mirrors `openvino.OVAny.aslist`.

        Raises:
            RuntimeError: If a word does not convert, or the value is neither a text nor a list or tuple.
        """
        if dtype is None:
            return []
        _check(dtype)
        if isinstance(self._value, str):
            return [read(dtype, word) for word in self._value.split()]
        if not is_list_or_tuple(self._value):
            raise RuntimeError(f"Bad cast of {self._value!r} to a list")
        return list(self._value)

    def _number(self, dtype: type) -> Any:
        """Convert to a type of numbers; a bool is no number, and converts to bool alone."""
        if isinstance(self._value, bool) is not (dtype is bool):
            raise RuntimeError(f"Bad cast of {self._value!r} to {dtype.__name__}")
        try:
            return dtype(self._value)
        except (TypeError, ValueError, OverflowError) as error:
            raise RuntimeError(f"Bad cast of {self._value!r} to {dtype.__name__}") from error


def _check(dtype: type) -> None:
    if dtype not in _SIMPLE:
        raise RuntimeError(f"Unsupported data type : '{dtype}' is passed as an argument.")


def _items(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise RuntimeError("Only ov::AnyMap or ov::Meta are expected here.")
    return {name: _below(item) for name, item in cast("Mapping[str, object]", value).items()}


def _below(item: object) -> object:
    return _items(cast("object", item)) if isinstance(item, Mapping) else OVAny(item)


def _checked(value: object) -> Any:
    """Give the value to hold for one that is given: for a dict of values by name, a copy in the order of the names."""
    named = _by_name(value)
    if named is not None:
        return {name: _checked(named[name]) for name in sorted(named)}
    if is_list(value) and not all(map(_may_be_listed, value)):
        raise RuntimeError("Unsupported attribute type.")
    opened = _opened(value)
    if is_list(opened) and any(type(item) is not type(opened[0]) for item in opened):
        raise RuntimeError("Incorrect attribute. Mixed types in the container are not allowed.")
    return opened


def _by_name(value: object) -> dict[str, object] | None:
    """Take a dict whose keys are all names; None for anything else."""
    if not isinstance(value, dict):
        return None
    items = cast("dict[object, object]", value)
    return cast("dict[str, object]", items) if all(isinstance(name, str) for name in items) else None


def _may_be_listed(item: object) -> bool:
    return isinstance(item, _SIMPLE) or not isinstance(item, bytes | np.generic | None)


def _opened(value: object) -> Any:
    """Give the value inside an `OVAny` of ours or openvino's, or Python's own for bytes or a value of numpy's."""
    match value:
        case bool():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case np.floating() if value.dtype == np.float32:
            return float(value)
        case str():
            return str(value)
        case list():
            return [_opened(item) for item in cast("list[object]", value)]
        case bytes():
            return value.decode()
        case _:
            return cast("OVAny", value).value if isinstance(value, OVAny) or openvino_class(value) == "OVAny" else value
