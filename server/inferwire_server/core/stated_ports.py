"""What a configuration says of a model's inputs, outputs and states, and whether the model fits that.

Where the configuration is narrower than the model, as one length where the model takes any, the model is to become so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from inferwire_proto.element_types import ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.specs import Dimension, PortSpec, Shape
from inferwire_server.core.tensors import write_shape
from inferwire_server.errors import ServingError

_ANY = Dimension(0, None)


@dataclass(frozen=True, slots=True)
class StatedPort:
    """What is said of one input or output; None for nothing. A length of -1 stands for any that the model takes.

    Attributes:
        row_layout: The layout of one picture, as "CHW".
    """

    element_type: ElementType | None = None
    dims: tuple[int, ...] | None = None
    row_layout: str | None = None


@dataclass(frozen=True)
class StatedPorts:
    """What is said of a model's inputs and outputs, by name, and of its states.

    Attributes:
        source: Where it is said, as an error names it.
        most_rows: The most rows of a batch; dimensions then leave the batch's out. 0 if they are whole shapes.
        has_sequences: Whether inferences follow upon each other, which takes a model that keeps states.
    """

    source: str
    inputs: Mapping[str, StatedPort]
    outputs: Mapping[str, StatedPort]
    most_rows: int = 0
    has_sequences: bool = False

    def without_shapes(self, names: Iterable[str]) -> StatedPorts:
        """Leave out the shapes of these inputs ("" for all), and those of outputs, which follow from them."""
        others = set(names)
        if not others:
            return self
        shaped = set(self.inputs) if "" in others else others
        inputs = {name: _without_dims(port) if name in shaped else port for name, port in self.inputs.items()}
        outputs = {name: _without_dims(port) for name, port in self.outputs.items()}
        return replace(self, inputs=inputs, outputs=outputs)

    def input_shapes(self, ports: Sequence[PortSpec]) -> dict[int, Shape]:
        """Check a model's inputs, and give the new shapes of those that are to have another, by position.

        Raises:
            ServingError: MODEL_FAILED naming all that is not as it is said.
        """
        shapes = self._shapes("input", self.inputs, ports)
        return {position: shape for position, shape in shapes.items() if shape != ports[position].shape}

    def input_layouts(self, ports: Sequence[PortSpec]) -> dict[int, str]:
        """Give the layouts of those of a model's inputs that have none themselves, by position.

        Raises:
            ServingError: MODEL_FAILED naming all whose shapes are not those of pictures.
        """
        known = _positions(ports)
        layouts: dict[int, str] = {}
        problems: list[str] = []
        for name, said in self.inputs.items():
            port = ports[known[name]]
            if said.row_layout is None or port.shape is None or port.layout:
                continue
            # A whole shape may be that of one picture, or of a batch.
            fitting = [f"N{said.row_layout}"] if self.most_rows else [f"N{said.row_layout}", said.row_layout]
            layout = next((each for each in fitting if len(each) == len(port.shape)), None)
            if layout is None:
                problems.append(
                    f"input '{name}' is said to be pictures of the layout {' or '.join(fitting)}, "
                    f"and the model's has {port.shape_text}"
                )
            else:
                layouts[known[name]] = layout
        if problems:
            raise ServingError(Code.MODEL_FAILED, f"{self.source}: {'; '.join(problems)}")
        return layouts

    def check_outputs(self, ports: Sequence[PortSpec]) -> None:
        """Check a model's outputs.

        Raises:
            ServingError: MODEL_FAILED naming all that is not as it is said.
        """
        self._shapes("output", self.outputs, ports)

    def check_states(self, states: Sequence[str]) -> None:
        """Check that a model keeps states if they are counted on.

        Raises:
            ServingError: MODEL_FAILED if it keeps none.
        """
        if self.has_sequences and not states:
            raise ServingError(
                Code.MODEL_FAILED,
                f"{self.source}: sequence_batching is set, and the model keeps no states between inferences, expected "
                "one that does: no answer of a sequence would depend on those before",
            )

    def _shapes(self, kind: str, stated: Mapping[str, StatedPort], ports: Sequence[PortSpec]) -> dict[int, Shape]:
        """Give the shapes, by position, of those ports whose dimensions are stated."""
        known = _positions(ports)
        shapes: dict[int, Shape] = {}
        problems: list[str] = []
        for name, said in stated.items():
            if name not in known:
                expected = ", ".join(f"'{port.oip_name}'" for port in ports) or "none"
                problems.append(f"there is no {kind} '{name}', expected one of {expected}")
                continue
            port = ports[known[name]]
            if said.element_type is not None and said.element_type is not port.element_type:
                own = port.element_type.name
                problems.append(
                    f"{kind} '{name}' is said to be of {said.element_type.name}, and the model's is of {own}"
                )
            if said.dims is not None:
                shape = shapes[known[name]] = self._fitted(said.dims, port)
                if shape is None:
                    problems.append(self._misfit(kind, name, said.dims, port))
        if problems:
            raise ServingError(Code.MODEL_FAILED, f"{self.source}: {'; '.join(problems)}")
        return shapes

    def _fitted(self, dims: Sequence[int], port: PortSpec) -> Shape:
        """Give the shape that fits both the model's port and the dimensions said; None if none does."""
        rows = [-1] if self.most_rows else []
        lengths = [*rows, *dims]
        own = port.shape if port.shape is not None else (_ANY,) * len(lengths)
        if len(own) != len(lengths):
            return None
        if self.most_rows:
            # A model for a fixed number of rows becomes one for any number, unless a batch has no more than one.
            one = self.most_rows == 1 and own[0].admits(1)
            own = (Dimension(1, 1) if one else _ANY if own[0].is_static else own[0], *own[1:])
        pairs = list(zip(own, lengths, strict=True))
        if not all(length == -1 or dimension.admits(length) for dimension, length in pairs):
            return None
        return tuple(dimension if length == -1 else Dimension(length, length) for dimension, length in pairs)

    def _misfit(self, kind: str, name: str, dims: Sequence[int], port: PortSpec) -> str:
        behind = " behind that of the batch" if self.most_rows else ""
        return (
            f"{kind} '{name}' is said to have dims {write_shape(dims)}{behind}, and the model's has {port.shape_text}"
        )


def _positions(ports: Sequence[PortSpec]) -> dict[str, int]:
    """Give the ports' positions by all of their names."""
    return {name: position for position, port in enumerate(ports) for name in (*port.names, port.oip_name)}


def _without_dims(port: StatedPort) -> StatedPort:
    return replace(port, dims=None)
