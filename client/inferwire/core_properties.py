"""The properties that one `Core` was given, for the compilations that follow.

Owns the overloads of openvino's `set_property`. They stay on the client: nothing here reaches a
server before a model is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from inferwire.arguments import incompatible

_SIGNATURES = (
    "(self: Core, properties: Mapping[str, object]) -> None",
    "(self: Core, property: tuple[str, object]) -> None",
    "(self: Core, device_name: str, properties: Mapping[str, object]) -> None",
    "(self: Core, device_name: str, property: tuple[str, object]) -> None",
)


OF_THIS_MACHINE = frozenset({"CACHE_DIR", "LOG_LEVEL"})
"""What programs set for the process and the disk that they run on. A server has its own, which its operator sets."""


class CoreProperties:
    """Properties by device; those of no device go with every compilation."""

    def __init__(self) -> None:
        self._by_device: dict[str, dict[str, object]] = {}

    def __repr__(self) -> str:
        return f"<CoreProperties {self._by_device!r}>"

    def take(self, owner: object, args: tuple[Any, ...]) -> None:
        """Take the arguments of a `set_property`.

        Raises:
            TypeError: For arguments that fit no overload.
        """
        device = args[0] if len(args) == 2 and isinstance(args[0], str) else ""
        given: object = args[-1] if len(args) == 1 or device else None
        if isinstance(given, tuple):
            pair = cast("tuple[Any, ...]", given)
            given = dict([pair]) if len(pair) == 2 and isinstance(pair[0], str) else None
        if not isinstance(given, Mapping):
            raise incompatible("set_property", *_SIGNATURES, invoked=(owner, *args))
        self._by_device.setdefault(device, {}).update(cast("Mapping[str, object]", given))

    def get(self, device: str, name: str) -> object | None:
        """Give what was set for a device, or for none."""
        return self._by_device.get(device, {}).get(name)

    def for_compile(self, device: str, config: Mapping[str, object] | None) -> dict[str, object]:
        """Merge what a compilation is given: for every device, for this one, and for this call."""
        merged = {**self._by_device.get("", {}), **self._by_device.get(device, {}), **(config or {})}
        return {name: value for name, value in merged.items() if name not in OF_THIS_MACHINE}
