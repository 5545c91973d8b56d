"""The properties that one `Core` was given, for the compilations that follow.

Owns the overloads of openvino's `set_property`, and which of the properties reach which compilation. The server
only checks them: it keeps none before a model is compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from inferwire.arguments import in_order, incompatible
from inferwire.properties.declaration import Property
from inferwire.property_values import map_to_contract
from inferwire.user_warnings import warn
from inferwire.values.any_texts import as_text
from inferwire.values.any_texts import read as read_text
from inferwire_proto.properties import OWN_PREFIX, EnumValue, Properties, PropertyValue

PropertyMap: TypeAlias = Mapping[str, Any] | Mapping[Property, Any]
"""Properties by name, or by what `inferwire.properties` has; its keys are all of one type or the other."""

Config: TypeAlias = PropertyMap | None
"""Properties of one call."""

Check = Callable[[str, Properties], Properties]
"""Asks a device for properties as it would take them; raises the device's error if it refuses them."""

_SIGNATURES = (
    "(self: Core, properties: Mapping[str, object]) -> None",
    "(self: Core, property: tuple[str, object]) -> None",
    "(self: Core, device_name: str, properties: Mapping[str, object]) -> None",
    "(self: Core, device_name: str, property: tuple[str, object]) -> None",
)
_FORMS = (("properties",), ("property",), ("device_name", "properties"), ("device_name", "property"))

_OF_THE_PROCESS = frozenset({"CACHE_DIR", "ENABLE_CPU_RESERVATION", "FORCE_TBB_TERMINATE", "LOG_LEVEL"})
"""Properties of the process that runs models, which the server's operator sets. Programs set them out of habit."""

_LOG_LEVELS: Mapping[object, str] = {
    "LOG_NONE": "NO",
    "LOG_ERROR": "ERR",
    "LOG_WARNING": "WARNING",
    "LOG_INFO": "INFO",
    "LOG_DEBUG": "DEBUG",
    "LOG_TRACE": "TRACE",
}
"""What openvino calls the members of `log.Level` in text."""

_OVER_OTHERS = ("AUTO", "MULTI", "HETERO")
"""Devices that run models on other devices, and take the properties of those by their names."""

_DEVICE_PROPERTIES = "DEVICE_PROPERTIES"


def is_config(value: object) -> bool:
    """Tell whether a value is what a call takes as properties: none at all, or each by its name."""
    return value is None or (
        isinstance(value, Mapping) and all(isinstance(name, str) for name in cast("Mapping[object, object]", value))
    )


def is_known_here(name: str) -> bool:
    """Tell whether a property is kept by the `Core` itself, so that the server need not be asked for it."""
    return name.startswith(OWN_PREFIX) or name in ("CACHE_DIR", "FORCE_TBB_TERMINATE")


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was set, by device. Replaced as a whole, never changed, so that threads may read it while others set more.

    Attributes:
        given: As it was given.
        taken: As the devices take it.
    """

    given: Mapping[str, Properties]
    taken: Mapping[str, Properties]


class CoreProperties:
    """Properties by device; those of no device go with every compilation. Any thread may call.

    Differs from OpenVINO: what belongs to the server's process is kept here and goes nowhere.
    """

    def __init__(self, check: Check) -> None:
        self._check = check
        self._kept = _Kept({}, {})
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<CoreProperties {self._kept.given!r}>"

    def take(self, owner: object, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Take the arguments of a `set_property`.

        Raises:
            TypeError: For arguments that fit no overload, and values of a type that no property has.
            RuntimeError: With openvino's text for a property that the device does not take.
        """
        device, properties = _arguments(owner, args, keywords)
        given = map_to_contract(properties)
        checked = _for_openvino(given)
        taken = {**_read_here(given), **(self._check(device, checked) if checked else {})}
        with self._lock:
            kept = self._kept
            self._kept = _Kept(_with(kept.given, device, given), _with(kept.taken, device, taken))

    def get(self, device: str, name: str) -> PropertyValue:
        """Give what was set for a device, as the device takes it; None if nothing was.

        Raises:
            RuntimeError: With openvino's text if this device does not take what was set for every device.
        """
        kept = self._kept
        found = _set_for(device, kept.taken).get(name)
        of_all = kept.given.get("", {})
        is_of_this = any(name in kept.taken.get(each, {}) for each in (device.partition(".")[0], device) if each)
        if name not in of_all or is_of_this or not _for_openvino({name: of_all[name]}):
            return found
        return self._check(device, {name: of_all[name]}).get(name) if device else found

    def for_compile(self, device: str, config: Config) -> dict[str, PropertyValue]:
        """Merge the properties of a compilation: those set for every device, those for this one, and those of the call.

        Raises:
            TypeError: For values of a type that no property has.
        """
        base, _, inner = device.partition(":")
        given = self._kept.given
        of_the_call = map_to_contract(cast("Mapping[str, object]", config or {}))
        merged = {**_set_for(base, given), **of_the_call}
        if base == "BATCH":
            merged = {**_set_for(inner.partition("(")[0], given), **merged}
        if base in _OVER_OTHERS:
            _add_devices(merged, given)
        for name in (each for each in merged.keys() & _OF_THE_PROCESS if merged[each] not in ("", False)):
            warn(
                f"{name} is a property of the server's process, which its operator sets; the model is compiled without",
                RuntimeWarning,
            )
        return {name: value for name, value in merged.items() if name not in _OF_THE_PROCESS}


def _arguments(owner: object, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[str, Mapping[str, object]]:
    given = in_order(args, keywords, *_FORMS) or (None,)
    device = given[0] if len(given) == 2 else ""
    value: object = given[-1]
    if isinstance(value, tuple):
        pair = cast("tuple[Any, ...]", value)
        value = dict([pair]) if len(pair) == 2 and isinstance(pair[0], str) else None
    if value is None or not is_config(value) or not isinstance(device, str):
        raise incompatible("set_property", *_SIGNATURES, invoked=(owner, *args), keywords=keywords)
    return device, cast("Mapping[str, object]", value)


def _with(by_device: Mapping[str, Properties], device: str, values: Properties) -> dict[str, Properties]:
    """Add what is set for a device; what is set for all of them, "", replaces what each of them had."""
    others = dict(by_device)
    if not device:
        others = {
            each: {name: value for name, value in own.items() if name not in values} for each, own in others.items()
        }
    return {**others, device: {**others.get(device, {}), **values}}


def _add_devices(merged: dict[str, PropertyValue], by_device: Mapping[str, Properties]) -> None:
    """Add what was set for other devices to the properties of a model for a device that runs on those."""
    others = {name: _for_openvino(given) for name, given in by_device.items() if name not in ("", *_OVER_OTHERS)}
    asked = merged.get(_DEVICE_PROPERTIES, {})
    if others and isinstance(asked, dict):
        merged[_DEVICE_PROPERTIES] = {
            # If a device's properties are a text, OpenVINO reads or refuses it.
            name: {**others.get(name, {}), **own} if isinstance(own := asked.get(name, {}), dict) else own
            for name in {**others, **asked}
        }


def _read_here(given: Properties) -> dict[str, PropertyValue]:
    """Give the values as openvino has them, of those properties that no device is asked for.

    Raises:
        RuntimeError: For a level of the log that does not exist, and for a text that is neither yes nor no.
    """
    read = dict(given)
    if "LOG_LEVEL" in given:
        read["LOG_LEVEL"] = _log_level(given["LOG_LEVEL"])
    for name in ("ENABLE_CPU_RESERVATION", "FORCE_TBB_TERMINATE"):
        if isinstance(text := given.get(name), str):
            read[name] = read_text(bool, text)
    return read


def _log_level(value: PropertyValue) -> PropertyValue:
    if isinstance(value, EnumValue):
        return value
    if value not in _LOG_LEVELS:
        raise RuntimeError(
            f"Wrong value {as_text(value)} for property key LOG_LEVEL. "
            "Expected only ov::log::Level::NO/ERR/WARNING/INFO/DEBUG/TRACE."
        )
    return EnumValue("log.Level", _LOG_LEVELS[value])


def _set_for(device: str, by_device: Mapping[str, Properties]) -> dict[str, PropertyValue]:
    """Give what was set for every device, for all of this one's kind, as of GPU for GPU.1, and for this one."""
    kind = device.partition(".")[0]
    return {name: value for each in ("", kind, device) for name, value in by_device.get(each, {}).items()}


def _for_openvino(given: Properties) -> dict[str, PropertyValue]:
    """Give the properties that OpenVINO is told: not those of the server's process, and none of inferwire's own."""
    return {
        name: value for name, value in given.items() if name not in _OF_THE_PROCESS and not name.startswith(OWN_PREFIX)
    }
