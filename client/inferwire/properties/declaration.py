"""How a property is declared: its key and the values that it takes.

Owns `Property` and the kinds of values. The other modules of this package declare the properties, one line each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias, cast, overload

import numpy as np

from inferwire.arguments import as_integer, as_member, incompatible
from inferwire.values.enumerations import OrderedChoice
from inferwire.values.ov_any import OVAny
from inferwire.values.types import Type, as_type

Kind: TypeAlias = Callable[..., object]
"""Gives the value that a property has for the arguments of its call, or raises TypeError."""


class Property(str):
    """A property's key, which makes the pair of key and value when called with a value.

    Mirrors `openvino.properties`' properties.

    Example:
        >>> from inferwire.properties import hint
        >>> hint.num_requests
        'PERFORMANCE_HINT_NUM_REQUESTS'
        >>> key, value = hint.num_requests(4)

    Raises:
        TypeError: For a value the property does not take; one that can only be read takes none.
    """

    _kind: Kind | None

    def __new__(cls, key: str, kind: Kind | None = None) -> Property:
        """Declare a property; without a kind it can only be read."""
        declared = super().__new__(cls, key)
        declared._kind = kind
        return declared

    @overload
    def __call__(self) -> str: ...
    @overload
    def __call__(self, value: Any, /, *more: Any) -> tuple[str, OVAny]: ...
    def __call__(self, *values: Any) -> str | tuple[str, OVAny]:
        """Give the key, or with a value the pair of key and value."""
        key = str(self)
        if not values:
            return key
        try:
            if self._kind is not None:
                return key, OVAny(self._kind(*values))
        except _RefusedError as refused:
            raise TypeError(str(refused)) from None
        except TypeError:
            pass
        raise incompatible(key, "() -> str", "(value) -> tuple[str, OVAny]", invoked=values)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class _RefusedError(TypeError):
    """A refusal with a message of its own, which replaces the list of signatures."""


def flag(value: object) -> bool:
    """Take a bool, a number or None as a truth value."""
    return bool(_expect(value, bool, int, float, np.bool_, type(None)))


def within(low: int, high: int) -> Kind:
    """Take an integer in a range."""

    def take(value: object) -> int:
        integer = as_integer(value)
        if integer is None or not low <= integer <= high:
            raise TypeError
        return integer

    return take


int32 = within(-(2**31), 2**31 - 1)
int64 = within(-(2**63), 2**63 - 1)
uint32 = within(0, 2**32 - 1)
uint64 = within(0, 2**64 - 1)


def number(value: object) -> float:
    """Take a number."""
    return float(_expect(value, int, float, np.floating, np.integer))


def text(value: object) -> str:
    """Take a string."""
    return _expect(value, str)


def element_type(value: object) -> Type:
    """Take an element type."""
    return _expect(as_type(value), Type)


def one_of(choices: type[OrderedChoice]) -> Kind:
    """Take a member of an enumeration."""

    def take(value: object) -> OrderedChoice:
        return _expect(as_member(value, choices), choices)

    return take


def some_of(choices: type[OrderedChoice]) -> Kind:
    """Take a set of an enumeration's members."""

    def take(value: object) -> set[OrderedChoice]:
        members = cast("AbstractSet[object]", _expect(value, AbstractSet))
        return {_expect(as_member(each, choices), choices) for each in members}

    return take


def mapping_of(kind: Kind) -> Kind:
    """Take a mapping from strings to values of a kind."""

    def take(value: object) -> dict[str, object]:
        return {text(key): kind(item) for key, item in _items(value)}

    return take


def curve(value: object) -> dict[int, float]:
    """Take a mapping from integers to numbers."""
    return {_expect(key, int): number(item) for key, item in _items(value)}


def either(*kinds: Kind) -> Kind:
    """Take a value as the first kind does that fits it."""

    def take(value: object) -> object:
        for kind in kinds:
            try:
                return kind(value)
            except TypeError:
                continue
        raise TypeError

    return take


def device_names(*names: object) -> str:
    """Take device names, the most wanted first."""
    for name in names:
        if not isinstance(name, str):
            raise _RefusedError(f"Incorrect passed value: {name} , expected string values.")
    return "".join(f"{name}," for name in names)


def device_properties(*each: object) -> dict[str, object]:
    """Take dictionaries of properties by device."""
    merged: dict[str, object] = {}
    for item in each:
        if not isinstance(item, dict):
            raise _RefusedError(f"Incorrect passed value: {item}, expected dictionary.")
        merged |= cast("dict[str, object]", item)
    return merged


def _items(value: object) -> list[tuple[object, object]]:
    return list(cast("Mapping[object, object]", _expect(value, Mapping)).items())


def _expect(value: object, *classes: type[Any]) -> Any:
    if not isinstance(value, classes):
        raise TypeError
    return value
