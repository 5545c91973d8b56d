"""Converts property values between what users hold and what the contract carries.

Owns the conversion of `inferwire.properties`' enumerations, `Type` and `OVAny` to the contract's values,
and back. Which properties there are is the server's business.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, cast

import numpy as np

from inferwire import properties
from inferwire.arguments import openvino_class
from inferwire.properties.streams import Num
from inferwire.values.ov_any import OVAny
from inferwire.values.types import Type, as_type, element_type_of, type_of
from inferwire_proto.element_types import ElementType
from inferwire_proto.properties import DYNAMIC, EnumValue, PropertyValue

_PACKAGE = "properties"


def from_contract(value: PropertyValue) -> Any:
    """Give a value as openvino would: enumerations and types as themselves."""
    match value:
        case EnumValue():
            return Type.dynamic if value == DYNAMIC else _member(value)
        case ElementType():
            return type_of(value)
        case list():
            return [from_contract(item) for item in value]
        case tuple():
            return tuple(from_contract(item) for item in value)
        case set():
            return {from_contract(item) for item in value}
        case dict():
            return {name: from_contract(item) for name, item in value.items()}
        case _:
            return value


def to_contract(value: object) -> PropertyValue:
    """Take a value as users give it, openvino's own enumerations included.

    Raises:
        TypeError: For a value of a type that no property has.
    """
    ours = _ours(value)
    if ours is not value:
        return to_contract(ours)
    match value:
        case OVAny():
            return to_contract(value.value)
        case None | bool() | int() | float():
            return value
        case np.integer() | np.floating():
            return value.item()
        case str():
            return str(value)
        case Type():
            return DYNAMIC if value.is_dynamic() else element_type_of(value)
        case Num():
            return value.to_integer()
        case os.PathLike():
            return os.fspath(cast("os.PathLike[str]", value))
        case Mapping():
            return map_to_contract(cast("Mapping[str, object]", value))
        case list() | tuple() | set():
            return _collection(cast("Iterable[object]", value))
        case _:
            return _enum_value(value)


def _ours(value: Any) -> Any:
    """Turn a value of openvino's into this SDK's; not an enumeration's member, which `_enum_value` finds by name."""
    match openvino_class(value):
        case "OVAny":
            return OVAny(value.value)
        case "Type":
            return as_type(value) or value
        case "Num":
            return value.to_integer()
        case _:
            return value


def map_to_contract(values: Mapping[str, object]) -> dict[str, PropertyValue]:
    """Take properties by name."""
    return {str(name): to_contract(value) for name, value in values.items()}


def _collection(values: Iterable[object]) -> PropertyValue:
    taken = [to_contract(value) for value in values]
    if isinstance(values, list):
        return taken
    return tuple(taken) if isinstance(values, tuple) else cast("PropertyValue", set(cast("Any", taken)))


def _member(value: EnumValue) -> Any:
    """Find a member of `inferwire.properties`; give the name of one that this client does not know."""
    found: Any = properties
    for part in value.type.split("."):
        found = getattr(found, part, None)
    return getattr(found, value.name, value.name)


def _enum_value(value: object) -> EnumValue:
    """Name a member of an enumeration under `properties`, ours or openvino's."""
    kind = type(value)
    _, package, module = f"{kind.__module__}.".partition(f".{_PACKAGE}.")
    name = getattr(value, "name", None)
    is_member = isinstance(value, Enum) or kind.__module__.startswith("openvino.")
    if not (package and is_member and isinstance(name, str)):
        raise TypeError(f"a property's value cannot be of type {kind.__name__}: {value!r}")
    return EnumValue(f"{module}{kind.__name__}", name)
