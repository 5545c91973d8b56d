"""The results of an inference, by port, name or position."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import numpy as np

from inferwire.ports import ConstOutput


class OVDict(Mapping["ConstOutput | str | int", np.ndarray[Any, Any]]):
    """Results of an inference. Mirrors `openvino.utils.data_helpers.OVDict`.

    Reads by the output's port, one of its names, or its position, from the end where negative. It
    is a mapping, not a dict, and cannot be written to.

    Example:
        >>> results = request.infer({"data": array})
        >>> results[0] is results["logits"]
        True

    Raises:
        KeyError: For an unknown port, name or position.
        TypeError: For a key that is none of the three.
    """

    __slots__ = ("_by_name", "_dict", "_ports")

    def __init__(self, results: dict[ConstOutput, np.ndarray[Any, Any]]) -> None:
        self._dict = results
        self._ports: tuple[ConstOutput, ...] | None = None
        self._by_name: dict[str, ConstOutput] | None = None

    def __iter__(self) -> Iterator[ConstOutput]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __repr__(self) -> str:
        return repr(self._dict)

    def __getitem__(self, key: ConstOutput | str | int) -> np.ndarray[Any, Any]:
        return self._dict[self._port(key)]

    def keys(self) -> KeysView[ConstOutput]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Give the ports in the model's order."""
        return self._dict.keys()

    def values(self) -> ValuesView[np.ndarray[Any, Any]]:
        """Give the arrays in the model's order."""
        return self._dict.values()

    def items(self) -> ItemsView[ConstOutput, np.ndarray[Any, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Give ports with their arrays in the model's order."""
        return self._dict.items()

    def names(self) -> tuple[set[str], ...]:
        """Give the names of each output, in the model's order."""
        return tuple(port.names for port in self._dict)

    def to_dict(self) -> dict[ConstOutput, np.ndarray[Any, Any]]:
        """Give the dict inside, not a copy of it."""
        return self._dict

    def to_tuple(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Give the arrays in the model's order."""
        return tuple(self._dict.values())

    def _port(self, key: object) -> ConstOutput:
        if isinstance(key, ConstOutput):
            return key
        if isinstance(key, str):
            return self._named(key)
        if isinstance(key, int):
            return self._at(key)
        raise TypeError(f"Unknown key type: {type(key)}")

    def _named(self, name: str) -> ConstOutput:
        if self._by_name is None:
            self._by_name = {each: port for port in reversed(self._dict) for each in port.names}
        return self._by_name[name]

    def _at(self, position: int) -> ConstOutput:
        if self._ports is None:
            self._ports = tuple(self._dict)
        try:
            return self._ports[position]
        except IndexError:
            raise KeyError(position) from None
