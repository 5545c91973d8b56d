"""What a model takes and gives, and whether a caller's tensors fit it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, TypeAlias

from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensor_checks import ADVICE_ON_PICTURES, check_content, check_shape, is_left_to_slot
from inferwire_server.core.tensors import Tensor, write_shape
from inferwire_server.errors import ServingError, invalid_input

PortKey: TypeAlias = str | int
"""How a caller names a port: by one of its names, or by its position."""

_OF_PICTURES = 4
"""How many dimensions a batch of pictures has: texts that are sent to an input of as many are files, as a rule."""

_MOST_SHAPES_KEPT = 512
"""How many shapes a model remembers as fitting: callers send tensors of the same shapes again and again."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A length between two bounds; no upper bound where `max` is None."""

    min: int
    max: int | None

    def admits(self, length: int) -> bool:
        """Whether a dimension of this length fits."""
        return self.min <= length and (self.max is None or length <= self.max)

    @property
    def is_static(self) -> bool:
        """Whether one length alone fits."""
        return self.min == self.max

    def __str__(self) -> str:
        if self.is_static:
            return str(self.min)
        if self.max is None:
            return "?" if self.min == 0 else f"{self.min}.."
        return f"{self.min}..{self.max}" if self.min else f"..{self.max}"


Shape: TypeAlias = tuple[Dimension, ...] | None
"""The shapes a port admits; None where not even the rank is known."""


@dataclass(frozen=True, slots=True)
class PortSource:
    """The node whose output a model gives as its own, and which output of it that is."""

    node_name: str
    node_type: str
    index: int


@dataclass(frozen=True, slots=True)
class PortSpec:
    """One input or output of a model.

    Its layout is as OpenVINO writes it: "[N,C,H,W]", empty where none is set. Outputs have a source.
    """

    names: frozenset[str]
    oip_name: str
    element_type: ElementType
    shape: Shape
    node_name: str
    node_type: str
    layout: str = ""
    source: PortSource | None = None

    def admits(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape fits."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            dimension.admits(length) for dimension, length in zip(self.shape, shape, strict=True)
        )

    @property
    def shape_text(self) -> str:
        """The shapes it admits, as OpenVINO writes them."""
        return "[...]" if self.shape is None else write_shape(self.shape)


@dataclass(frozen=True)
class ModelSpec:
    """The ports of a model, under the name its callers know.

    Attributes:
        states: The names of the states it keeps.
        sinks: The nodes that write these states in the graph before it is compiled, each with its first output.
        rt_info: What the model's file says beside the graph, by name: texts, and tables of more of them.
    """

    name: str
    inputs: tuple[PortSpec, ...]
    outputs: tuple[PortSpec, ...]
    states: tuple[str, ...] = ()
    sinks: tuple[PortSpec, ...] = ()
    rt_info: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @cached_property
    def signature(self) -> int:
        """A number that is equal for models with equal ports, and never 0.

        Of a port's names only the protocol's counts, because the runtime invents others anew each time it compiles.
        """
        ports = [(port.oip_name, port.element_type.name, port.shape_text) for port in (*self.inputs, *self.outputs)]
        text = repr((len(self.inputs), ports)).encode()
        return int.from_bytes(sha256(text).digest()[:8], "little") or 1

    @cached_property
    def _input_index(self) -> dict[PortKey, int]:
        return _index(self.inputs)

    @cached_property
    def _output_index(self) -> dict[PortKey, int]:
        return _index(self.outputs)

    @cached_property
    def _all_outputs(self) -> tuple[int, ...]:
        return tuple(range(len(self.outputs)))

    @cached_property
    def _checked_shape(self) -> Callable[[int, ElementType, tuple[int, ...], int], int | None]:
        return lru_cache(_MOST_SHAPES_KEPT)(self._check_shape)

    def input(self, key: PortKey) -> PortSpec:
        """Give an input by one of its names or its position.

        Raises:
            ServingError: INVALID_INPUT if it is unknown.
        """
        return self.inputs[self._index_of_input(key)]

    def check_input(self, key: PortKey, element_type: ElementType, shape: tuple[int, ...]) -> None:
        """Refuse an input by its name, type or shape. Its bytes are not checked.

        Raises:
            ServingError: INVALID_INPUT if it is unknown, or does not fit.
        """
        self._checked_shape(self._index_of_input(key), element_type, shape, 1)

    def arrange(self, given: Iterable[tuple[PortKey, Tensor]], count: int = 1) -> tuple[Tensor, ...]:
        """Put a caller's inputs into the model's order. They may be those of a stack of `count` executions.

        Very many strings or booleans are not checked here but by the slot that reads them, with the same sentence. In a
        stack so many are refused: each execution is to fail by itself, and where one's strings end and the next one's
        begin is known only after reading them.

        Raises:
            ServingError: INVALID_INPUT if one is unknown, missing, given twice, or does not fit.
        """
        arranged: list[Tensor | None] = [None] * len(self.inputs)
        for key, tensor in given:
            index = self._input_index.get(key)
            if index is None:
                raise self._unknown("input", key, self.inputs)
            if arranged[index] is not None:
                raise invalid_input(f"{self.prefix_of(index)} is given twice")
            if tensor.byte_size != self._checked_shape(index, tensor.element_type, tensor.shape, count):
                self._check_values(index, tensor, count)
            arranged[index] = tensor
        complete = tuple([tensor for tensor in arranged if tensor is not None])
        if len(complete) != len(arranged):
            missing = [f"'{self.inputs[i].oip_name}'" for i, tensor in enumerate(arranged) if tensor is None]
            kind, verb = ("input", "is") if len(missing) == 1 else ("inputs", "are")
            raise invalid_input(f"{kind} {', '.join(missing)} of model '{self.name}' {verb} missing")
        return complete

    def select(self, wanted: Sequence[PortKey]) -> tuple[int, ...]:
        """Give the positions of the wanted outputs; of all where none is named.

        Raises:
            ServingError: INVALID_INPUT if one is unknown or named twice.
        """
        if not wanted:
            return self._all_outputs
        selected: list[int] = []
        for key in wanted:
            index = self._output_index.get(key)
            if index is None:
                raise self._unknown("output", key, self.outputs)
            if index in selected:
                raise invalid_input(
                    f"output '{self.outputs[index].oip_name}' of model '{self.name}' is asked for twice"
                )
            selected.append(index)
        return tuple(selected)

    def check_states(self, values: Iterable[tuple[str, Tensor]]) -> None:
        """Refuse values that the states of these names cannot have.

        Raises:
            ServingError: INVALID_INPUT if a tensor is none of its type and shape.
        """
        for name, tensor in values:
            prefix = f"state '{name}' of model '{self.name}'"
            check_shape(prefix, tensor.shape)
            check_content(prefix, tensor)

    def check_state_names(self, names: Iterable[str]) -> None:
        """Refuse names of states that cannot be read, written or reset together.

        Raises:
            ServingError: INVALID_INPUT if the model has no state of a name, or one is named twice.
        """
        named: set[str] = set()
        for name in names:
            if name not in self.states:
                known = ", ".join(f"'{state}'" for state in self.states)
                raise invalid_input(f"model '{self.name}' has no state '{name}', expected one of {known or 'none'}")
            if name in named:
                raise invalid_input(f"state '{name}' of model '{self.name}' is named twice")
            named.add(name)

    def _index_of_input(self, key: PortKey) -> int:
        index = self._input_index.get(key)
        if index is None:
            raise self._unknown("input", key, self.inputs)
        return index

    def _unknown(self, kind: str, key: PortKey, ports: Sequence[PortSpec]) -> ServingError:
        known = ", ".join(f"'{port.oip_name}'" for port in ports)
        what = f"'{key}'" if isinstance(key, str) else f"number {key}"
        return invalid_input(f"{kind} {what} of model '{self.name}' is not known, expected one of {known or 'none'}")

    def prefix_of(self, index: int) -> str:
        """Give the beginning of a sentence about an input."""
        return f"input '{self.inputs[index].oip_name}' of model '{self.name}'"

    def _check_values(self, index: int, tensor: Tensor, count: int) -> None:
        if not is_left_to_slot(tensor):
            check_content(self.prefix_of(index), tensor)
        elif count > 1:
            prefix = self.prefix_of(index)
            raise invalid_input(f"{prefix} is too large for a stack of {count} executions to be checked at once")

    def _check_shape(self, index: int, element_type: ElementType, shape: tuple[int, ...], count: int) -> int | None:
        """Refuse a tensor by its type and shape; give how many bytes it has to have, None if values count too."""
        port, prefix = self.inputs[index], self.prefix_of(index)
        if element_type is not port.element_type:
            takes_pictures = port.shape is not None and len(port.shape) == _OF_PICTURES
            advice = ADVICE_ON_PICTURES if element_type.is_string and takes_pictures else ""
            given, expected = _both_names(element_type), _both_names(port.element_type)
            raise invalid_input(f"{prefix} has element type {given}, expected {expected}{advice}")
        shape_of_one = shape if count == 1 else (shape[0] // count, *shape[1:])
        if not port.admits(shape_of_one):
            raise invalid_input(f"{prefix} has shape {write_shape(shape_of_one)}, expected {port.shape_text}")
        check_shape(prefix, shape)
        return None if element_type.is_string or element_type.name == "boolean" else element_type.byte_size(shape)


def _both_names(element_type: ElementType) -> str:
    """Name a type as OpenVINO does and, if it has the type, as the Open Inference Protocol does."""
    return f"{element_type.name} ({element_type.oip})" if element_type.oip else element_type.name


def _index(ports: Sequence[PortSpec]) -> dict[PortKey, int]:
    """Index ports by position, by their protocol name, and by every name that is theirs alone."""
    index: dict[PortKey, int] = {}
    shared: set[str] = set()
    for position, port in enumerate(ports):
        for name in port.names:
            if name in index:
                shared.add(name)
            index[name] = position
    for name in shared:
        del index[name]
    for position, port in enumerate(ports):
        index[port.oip_name] = position
        index[position] = position
    return index
