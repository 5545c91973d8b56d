"""A property's value with its type: `OVAny`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from inferwire.arguments import Unpicklable, is_list, openvino_class

_WORDS = {"YES": True, "TRUE": True, "NO": False, "FALSE": False}


class OVAny(Unpicklable):
    """A value of any type that properties have. Mirrors `openvino.OVAny`.

    It equals and hashes as its value does, and reads and writes its items.

    Differs from OpenVINO: an item that is set stays set, where openvino sets it in a copy.

    Example:
        >>> OVAny("3").astype(int)
        3

    Raises:
        RuntimeError: For a list of mixed types.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: object) -> None:
        if is_list(value) and any(type(item) is not type(value[0]) for item in value):
            raise RuntimeError("Incorrect attribute. Mixed types in the container are not allowed.")
        self._value: Any = _opened(value)

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
        """The value itself."""
        return self._value

    def get(self) -> Any:
        """Give `value`."""
        return self._value

    def set(self, value: object) -> None:
        """Take another value."""
        self._value = _opened(value)

    def astype(self, dtype: type) -> Any:
        """Convert to bool, int, float, str or dict.

        Raises:
            RuntimeError: Where the value has no such form.
        """
        if dtype is dict:
            return self._items()
        if dtype is bool and isinstance(self._value, str):
            return self._word(self._value)
        return self._convert(dtype, self._value)

    def aslist(self, dtype: type | None = None) -> list[Any]:
        """Convert to a list of bool, int, float or str; text is split at its spaces.

        Raises:
            RuntimeError: Where an item has no such form.
        """
        if dtype is None:
            return []
        try:
            items: list[Any] = self._value.split() if isinstance(self._value, str) else list(self._value)
        except TypeError as error:
            raise RuntimeError(f"Bad cast of {self._value!r} to a list") from error
        return [OVAny(item).astype(dtype) for item in items]

    def _items(self) -> dict[str, OVAny]:
        if not isinstance(self._value, Mapping):
            raise RuntimeError("Only ov::AnyMap or ov::Meta are expected here.")
        items = cast("Mapping[str, object]", self._value)  # pyright: ignore[reportUnknownMemberType]
        return {key: OVAny(item) for key, item in items.items()}

    def _word(self, text: str) -> bool:
        known = _WORDS.get(text.upper())
        if known is None:
            raise RuntimeError(f"Could not convert to bool from string {text}")
        return known

    def _convert(self, dtype: type, item: object) -> Any:
        try:
            return dtype(item)
        except (TypeError, ValueError) as error:
            raise RuntimeError(f"Bad cast of {item!r} to {dtype.__name__}") from error


def _opened(value: object) -> Any:
    """Give the value that stands in another `OVAny`, ours or openvino's."""
    return cast("OVAny", value).value if isinstance(value, OVAny) or openvino_class(value) == "OVAny" else value
