"""Property values with their Python types, and how they travel.

A property keeps the type openvino gives it. What numpy and Python have no type for travels by
name: element types as rows of the table, members of OpenVINO's enumerations as `EnumValue`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, Union

from google.protobuf.unknown_fields import UnknownFieldSet

from inferwire_proto.element_types import BY_WIRE, ElementType
from inferwire_proto.inferwire.v1 import types_pb2 as pb

OWN_PREFIX = "INFERWIRE_"
"""How the names of the properties begin that say how the server runs a model, and that OpenVINO does not see."""

MAX_BATCH = "INFERWIRE_MAX_BATCH"
"""How many rows the server runs as one inference at most."""


@dataclass(frozen=True, slots=True)
class EnumValue:
    """A member of one of OpenVINO's enumerations: type "hint.PerformanceMode", name "LATENCY"."""

    type: str
    name: str


DYNAMIC = EnumValue("Type", "dynamic")
"""The element type of a property that leaves the type open. No tensor has it, and it is no row of the table."""

Scalar: TypeAlias = str | bool | int | float | ElementType | EnumValue | None

PropertyValue: TypeAlias = Union[
    Scalar,
    "list[PropertyValue]",
    "tuple[PropertyValue, ...]",
    set[Scalar],
    "dict[str, PropertyValue]",
]

Properties: TypeAlias = Mapping[str, PropertyValue]


def to_wire(value: PropertyValue) -> pb.PropertyValue:
    """Encode a value.

    Raises:
        TypeError: If the value is of a type no property has.
    """
    match value:
        case None:
            return pb.PropertyValue()
        case bool():
            return pb.PropertyValue(bool_value=value)
        case str():
            return pb.PropertyValue(string_value=value)
        case int():
            return pb.PropertyValue(int_value=value)
        case float():
            return pb.PropertyValue(double_value=value)
        case ElementType():
            return pb.PropertyValue(type_value=pb.ElementType.ValueType(value.wire))
        case EnumValue():
            return pb.PropertyValue(enum_value=pb.PropertyEnum(type=value.type, name=value.name))
        case list():
            return pb.PropertyValue(list_value=_list(value))
        case tuple():
            return pb.PropertyValue(tuple_value=_list(value))
        case set():
            return pb.PropertyValue(set_value=_list(value))
        case dict():
            return pb.PropertyValue(map_value=pb.PropertyMap(values=map_to_wire(value), order=value))
        case _:
            raise TypeError(f"a property's value cannot be of type {type(value).__name__}: {value!r}")


def from_wire(message: pb.PropertyValue) -> PropertyValue:
    """Decode a value.

    Raises:
        ValueError: If it is of a kind, or names an element type, that only a later version knows, or has a set of
            collections.
    """
    match message.WhichOneof("kind"):
        case "string_value":
            return message.string_value
        case "bool_value":
            return message.bool_value
        case "int_value":
            return message.int_value
        case "double_value":
            return message.double_value
        case "list_value":
            return [from_wire(value) for value in message.list_value.values]
        case "tuple_value":
            return tuple(from_wire(value) for value in message.tuple_value.values)
        case "set_value":
            return {_scalar(value) for value in message.set_value.values}
        case "map_value":
            values = map_from_wire(message.map_value.values)
            # A protobuf map has no fixed order, and older versions do not send one.
            names = dict.fromkeys((*message.map_value.order, *sorted(values)))
            return {name: values[name] for name in names if name in values}
        case "type_value":
            return _element_type(message.type_value)
        case "enum_value":
            return EnumValue(message.enum_value.type, message.enum_value.name)
        case _:
            if len(UnknownFieldSet(message)):
                raise ValueError("a value is of a kind that is not known")
            return None


def map_to_wire(values: Properties) -> dict[str, pb.PropertyValue]:
    """Encode properties by name."""
    return {name: to_wire(value) for name, value in values.items()}


def map_from_wire(values: Mapping[str, pb.PropertyValue]) -> dict[str, PropertyValue]:
    """Decode properties by name."""
    return {name: from_wire(value) for name, value in values.items()}


def _list(values: Iterable[PropertyValue]) -> pb.PropertyList:
    return pb.PropertyList(values=[to_wire(value) for value in values])


def _scalar(message: pb.PropertyValue) -> Scalar:
    value = from_wire(message)
    if isinstance(value, list | tuple | set | dict):
        raise ValueError(f"a set cannot hold a {type(value).__name__}, expected single values")
    return value


def _element_type(number: int) -> ElementType:
    if number not in BY_WIRE:
        raise ValueError(f"element type {number} is not known, expected 1 to {max(BY_WIRE)}")
    return BY_WIRE[number]
