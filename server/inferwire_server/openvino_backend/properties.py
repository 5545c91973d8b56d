"""Translates between properties as they travel and as OpenVINO reads and gives them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import openvino as ov

from inferwire_proto.element_types import BY_NAME, ElementType
from inferwire_proto.properties import DYNAMIC, EnumValue, Properties, PropertyValue, Scalar
from inferwire_server.errors import invalid_input

_NOT_LISTED = ("LOADED_FROM_CACHE", "DEVICE_ID", "MODEL_DISTRIBUTION_POLICY")
"""Properties that models have and do not list: all of them the first two, those of HETERO the last."""


def readable_properties(compiled: ov.CompiledModel) -> Properties:
    """Read a model's properties; those that cannot be read are left out."""
    values: dict[str, PropertyValue] = {}
    listed = compiled.get_property("SUPPORTED_PROPERTIES")
    below = _of_batched_device(compiled) if "AUTO_BATCH_TIMEOUT" in listed else ()
    for name in (*listed, *_NOT_LISTED, *below):
        try:
            values[name] = property_value(compiled.get_property(name))
        except RuntimeError:
            continue
    return values


def _of_batched_device(compiled: ov.CompiledModel) -> tuple[str, ...]:
    """List what BATCH asks the device below for, and does not list itself.

    For throughput, OpenVINO puts BATCH before a GPU by itself.
    """
    (below,) = compiled.get_property("DEVICE_PROPERTIES").values()
    return ("DEVICE_PROPERTIES", *below)


def execution_devices(compiled: ov.CompiledModel) -> tuple[str, ...]:
    """List the physical devices that a model runs on: what a virtual one calls "(CPU)" is CPU."""
    return tuple(device.strip("()") for device in compiled.get_property("EXECUTION_DEVICES"))


def chooses_device(core: ov.Core, device: str, properties: Properties) -> bool:
    """Whether one of the properties tells AUTO how to choose, and says nothing to a device."""
    of_auto = set(core.get_property("AUTO", "SUPPORTED_PROPERTIES"))
    return not (of_auto - set(core.get_property(device, "SUPPORTED_PROPERTIES"))).isdisjoint(properties)


def property_value(value: Any) -> PropertyValue:
    """Make a property's value one that travels."""
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {str(key): property_value(item) for key, item in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("Collection[Any]", value)
        if isinstance(value, list):
            return [property_value(item) for item in items]
        if isinstance(value, tuple):
            return tuple(property_value(item) for item in items)
        return {_scalar(item) for item in items}
    return _scalar(value)


def _scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, ov.Type):
        return BY_NAME.get(value.get_type_name(), DYNAMIC)
    kind = cast("type[Any]", type(value))
    if hasattr(kind, "__members__"):
        module = kind.__module__.rpartition("properties")[2]
        return EnumValue(f"{module}.{kind.__name__}".lstrip("."), value.name)
    return str(value)


def config_of(properties: Properties) -> dict[str, Any]:
    """Give properties as OpenVINO reads them.

    Raises:
        ServingError: INVALID_INPUT for a list that OpenVINO has no type for: its own error would not name the property.
    """
    for name, value in properties.items():
        _check_lists(name, value)
    return {name: _runtime_value(value) for name, value in properties.items()}


def without_bound_buffers(config: dict[str, Any]) -> dict[str, Any]:
    """Have AUTO and MULTI bind no buffers to devices: they would allow no requests beyond the optimal ones."""
    binds = str(config.get("DEVICE_BIND_BUFFER")).strip().lower() in ("true", "yes", "1")
    return config | {"DEVICE_BIND_BUFFER": False} if binds else config


def set_property(core: Any, where: tuple[str, ...], config: dict[str, Any]) -> None:
    """Set properties of devices, or of all there is."""
    for device in where:
        core.get_versions(device)  # loads its plugin: until then anything would be taken
    core.set_property(*where, config)


def read_back(core: Any, where: tuple[str, ...], name: str, value: PropertyValue) -> PropertyValue:
    """Read a property that was set; give the value that it was set to if it cannot be read."""
    try:
        return property_value(core.get_property(*where, name))
    except RuntimeError:
        return value


def _check_lists(name: str, value: PropertyValue) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _check_lists(f"{name}.{key}", item)
    elif isinstance(value, list | tuple | set):
        kinds = {_kind(item) for item in value}
        if len(kinds) > 1 or not kinds <= {"texts", "numbers", "fractions"}:
            raise invalid_input(
                f"the list of property {name} has {' and '.join(sorted(kinds))} in it, "
                "expected texts alone, whole numbers alone or fractions alone"
            )


def _kind(item: PropertyValue) -> str:
    match item:
        case str() | ElementType() | EnumValue():
            return "texts"
        case int():
            return "numbers"
        case float():
            return "fractions"
        case None:
            return "empty values"
        case _:
            return "lists"


def _runtime_value(value: PropertyValue) -> Any:
    """Give a property's value as OpenVINO reads it: it takes types and enumerations by name, but for those in sets."""
    match value:
        case ElementType() | EnumValue():
            return value.name
        case list() | tuple():
            return [_runtime_value(item) for item in value]
        case set():
            return {_member(item) if isinstance(item, EnumValue) else _runtime_value(item) for item in value}
        case dict():
            return {name: _runtime_value(item) for name, item in value.items()}
        case _:
            return value


def _member(value: EnumValue) -> Any:
    """Find a member of OpenVINO's enumerations; its name, which OpenVINO refuses, where there is no such member."""
    kind: Any = ov.properties
    for part in value.type.split("."):
        kind = getattr(kind, part, None)
    return getattr(kind, "__members__", {}).get(value.name, value.name)
