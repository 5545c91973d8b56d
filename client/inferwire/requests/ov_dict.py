"""The results of an inference, by port, name or position."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView

from inferwire.arguments import openvino_class
from inferwire.graph.foreign_ports import as_port
from inferwire.graph.ports import ConstOutput, Port, are_alike
from inferwire.tensors.element_arrays import Array


class OVDict(Mapping["ConstOutput | str | int", Array]):
    """Results of an inference. Mirrors `openvino.utils.data_helpers.OVDict`.

    Reads by the output's port, one of its names, or its position, from the end if negative. It
    is a mapping, not a dict, and cannot be written to. A port of openvino itself, if that is installed too, finds the
    output that is like it. Outputs that are still on the server are fetched by whatever shows, compares or gives their
    elements; `in`, `len`, `keys` and `names` fetch none.

    Example:
        >>> results = request.infer({"data": array})
        >>> results[0] is results["logits"]
        True

    Raises:
        KeyError: For an unknown port, name or position.
        TypeError: For a key that is none of the three.
    """

    __slots__ = ("__weakref__", "_by_name", "_dict", "_later", "_ports")

    def __init__(self, results: dict[ConstOutput, Array], later: dict[ConstOutput, Callable[[], Array]] | None = None):
        """Hold results. Those of `later`, which are still on the server, are fetched when they are first read."""
        self._dict = results
        self._later = later or {}
        self._ports: tuple[ConstOutput, ...] | None = None
        self._by_name: dict[str, ConstOutput] | None = None

    def __iter__(self) -> Iterator[ConstOutput]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __repr__(self) -> str:
        return repr(self.to_dict())

    def __contains__(self, key: object) -> bool:
        """Tell whether there is such an output, without fetching it."""
        try:
            return self._port(key) in self._dict
        except KeyError:
            return False

    def __getitem__(self, key: ConstOutput | str | int) -> Array:
        port = self._port(key)
        if port in self._later:
            self._fetch(port)
        return self._dict[port]

    def keys(self) -> KeysView[ConstOutput]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Give the ports in the model's order. Mirrors `openvino.utils.data_helpers.OVDict.keys`."""
        return self._dict.keys()

    def values(self) -> ValuesView[Array]:
        """Give the arrays in the model's order. Mirrors `openvino.utils.data_helpers.OVDict.values`."""
        return self.to_dict().values()

    def items(self) -> ItemsView[ConstOutput, Array]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Give ports with their arrays in the model's order. Mirrors `openvino.utils.data_helpers.OVDict.items`."""
        return self.to_dict().items()

    def names(self) -> tuple[set[str], ...]:
        """Give the names of each output, in the model's order. Mirrors `openvino.utils.data_helpers.OVDict.names`."""
        return tuple(port.names for port in self._dict)

    def to_dict(self) -> dict[ConstOutput, Array]:
        """Give the dict inside, not a copy of it. Mirrors `openvino.utils.data_helpers.OVDict.to_dict`."""
        for port in tuple(self._later):
            self._fetch(port)
        return self._dict

    def to_tuple(self) -> tuple[Array, ...]:
        """Give the arrays in the model's order. Mirrors `openvino.utils.data_helpers.OVDict.to_tuple`."""
        return tuple(self.to_dict().values())

    def _fetch(self, port: ConstOutput) -> None:
        fetch = self._later.get(port)
        if fetch is not None:
            self._dict[port] = fetch()
            self._later.pop(port, None)

    def _port(self, key: object) -> ConstOutput:
        if isinstance(key, ConstOutput):
            return key
        if isinstance(key, str):
            return self._named(key)
        if isinstance(key, int):
            return self._at(key)
        theirs = as_port(key) if openvino_class(key) == "ConstOutput" else None
        if theirs is not None:
            return self._like(theirs)
        raise TypeError(f"Unknown key type: {type(key)}")

    def _like(self, theirs: Port) -> ConstOutput:
        for port in self._dict:
            if are_alike(port, theirs):
                return port
        raise KeyError(theirs)

    def _named(self, name: str) -> ConstOutput:
        if self._by_name is None:
            self._by_name = {each: port for port in reversed(self._dict) for each in port.description.names}
        return self._by_name[name]

    def _at(self, position: int) -> ConstOutput:
        if self._ports is None:
            self._ports = tuple(self._dict)
        try:
            return self._ports[position]
        except IndexError:
            raise KeyError(position) from None
