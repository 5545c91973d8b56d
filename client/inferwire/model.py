"""A model that was read but not compiled: `Model`.

Owns the new shapes a user gives it. The graph itself stays on the server, which reads it anew for each
compilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self, cast

from inferwire.arguments import as_size, incompatible
from inferwire.model_files import ModelFiles, sha256_of
from inferwire.model_nodes import ModelNodes
from inferwire.not_offered import refuse
from inferwire.partial_shape import PartialShape
from inferwire.ports import ConstOutput, PortDescription, as_port
from inferwire.transport.protocol import ModelDescription, ModelSource, Transport


class Output(ConstOutput):
    """One input or output of a model that is not compiled. Mirrors the readable part of `openvino.Output`."""

    def __repr__(self) -> str:
        return super().__repr__().replace("ConstOutput", "Output", 1)

    def follow(self, description: PortDescription) -> None:
        """Become what the server now says of the port; for the SDK's own use, not in openvino."""
        self._description = description
        self._node.follow(description)


class Model(ModelNodes):
    """A model's ports, with the right to compile it. Mirrors `openvino.Model`.

    Made by `Core.read_model`.

    Differs from OpenVINO: the graph is on the server, so that ports can be read and inputs
    reshaped, and nothing else edited; names, layouts and runtime information that are set stay on this side.

    Example:
        >>> model = core.read_model("model.xml")
        >>> model.reshape({"data": [1, 3]})
        >>> compiled = core.compile_model(model, "CPU")
    """

    def __init__(self, transport: Transport, files: ModelFiles) -> None:
        super().__init__(files)
        self._transport = transport
        self._reshape: dict[str, PartialShape] = {}
        self._name: str | None = None
        self._inputs: list[Output] = []
        self._outputs: list[Output] = []
        self._describe({})

    def __repr__(self) -> str:
        inputs = "\n".join(repr(port).replace("Output", "ConstOutput", 1) for port in self._inputs)
        outputs = "\n".join(repr(port).replace("Output", "ConstOutput", 1) for port in self._outputs)
        return f"<Model: '{self.friendly_name}'\ninputs[\n{inputs}\n]\noutputs[\n{outputs}\n]>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Do nothing: openvino frees the graph, which the server has."""

    def __copy__(self) -> NoReturn:
        raise TypeError("Cannot copy 'openvino.Model'. Please, use deepcopy instead.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self.clone()

    def clone(self) -> Model:
        """Give a model of the same files and shapes, that can be reshaped on its own.

        Mirrors `openvino.Model.clone`.
        """
        model = Model(self._transport, self._files)
        model._describe(self._reshape)
        model._name = self._name
        return model

    @property
    def inputs(self) -> list[Output]:
        """The inputs in the model's order."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Output]:
        """The outputs in the model's order."""
        return list(self._outputs)

    @property
    def friendly_name(self) -> str:
        """The name for people; setting it changes nothing on the server."""
        return self._description.name if self._name is None else self._name

    @friendly_name.setter
    def friendly_name(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """The name the model came with."""
        return self._description.name

    def get_name(self) -> str:
        """Give `name`."""
        return self.name

    @property
    def dynamic(self) -> bool:
        """Whether an input or output has a shape that is not known in full."""
        return any(port.partial_shape.is_dynamic for port in (*self._inputs, *self._outputs))

    def is_dynamic(self) -> bool:
        """Give `dynamic`."""
        return self.dynamic

    def get_friendly_name(self) -> str:
        """Give `friendly_name`."""
        return self.friendly_name

    def set_friendly_name(self, name: str) -> None:
        """Set `friendly_name`."""
        self.friendly_name = name

    def input(self, *args: int | str) -> Output:
        """Give an input by its position or one of its names; without, the only one.

        Mirrors `openvino.Model.input`.

        Raises:
            TypeError: For any other key.
            IndexError: If there is no such position.
            RuntimeError: If there is no such name, or more than one input.
        """
        return self._port("input", "Input", self._inputs, args)

    def output(self, *args: int | str) -> Output:
        """Give an output by its position or one of its names; without, the only one.

        Mirrors `openvino.Model.output`.

        Raises:
            TypeError: For any other key.
            IndexError: If there is no such position.
            RuntimeError: If there is no such name, or more than one output.
        """
        return self._port("output", "Output", self._outputs, args)

    def reshape(self, partial_shape: Any, variables_shapes: Mapping[str, Any] | None = None) -> None:
        """Give inputs new shapes; the server tells what the others become.

        Mirrors `openvino.Model.reshape`.

        Args:
            partial_shape: The shape of the only input, or shapes by name, position or port.
            variables_shapes: New shapes of the model's states; not offered yet.

        Raises:
            TypeError: For what is no shape or no key.
            RuntimeError: If there is no such input, or the model cannot take the shape.
        """
        if variables_shapes:
            refuse("Model.reshape() of variables")
        if isinstance(partial_shape, dict):
            given = cast("dict[Any, Any]", partial_shape)
            shapes = {self._input_of(key): _shape(shape) for key, shape in given.items()}
        else:
            shapes = {self.input(): _shape(partial_shape)}
        named = {_wire_name(port): shape for port, shape in shapes.items()}
        self._describe(self._reshape | named)

    def source(self) -> ModelSource:
        """Upload what the session has not, and name it; for the SDK's own use, not in openvino."""
        return self._source(self._reshape)

    def _describe(self, reshape: Mapping[str, PartialShape]) -> None:
        """Ask the server for the ports under these shapes; nothing changes where it refuses."""
        description = self._transport.read(self._source(reshape))
        self._description: ModelDescription = description
        self._reshape = dict(reshape)
        self._inputs = _following(self._inputs, description.inputs)
        self._outputs = _following(self._outputs, description.outputs)

    def _source(self, reshape: Mapping[str, PartialShape]) -> ModelSource:
        self._transport.upload(self._files.blobs)
        weights = self._files.weights
        return ModelSource(
            model=sha256_of(self._files.model),
            weights=sha256_of(weights) if len(weights) else b"",
            suffix=self._files.suffix,
            reshape=reshape,
            variables={path: sha256_of(content) for path, content in self._files.variables.items()},
        )

    def _input_of(self, key: object) -> Output:
        if isinstance(key, ConstOutput):
            return self._inputs[self._inputs.index(cast("Output", key))]
        theirs = as_port(key)
        if theirs is not None:
            return self.input(theirs.any_name)
        return self.input(cast("int | str", key))

    def _port(self, kind: str, title: str, ports: list[Output], args: tuple[object, ...]) -> Output:
        if not args:
            if len(ports) != 1:
                raise RuntimeError(f"{kind}() must be called on a Model with exactly one parameter.")
            return ports[0]
        key = args[0]
        if isinstance(key, str):
            return _named(title, ports, key)
        index = as_size(key)
        if index is None or len(args) > 1:
            signatures = ("(self: Model, index: int)", "(self: Model, tensor_name: str)")
            raise incompatible(kind, *signatures, invoked=(self, *args))
        if index >= len(ports):
            raise IndexError(f"vector::_M_range_check: __n (which is {index}) >= this->size() (which is {len(ports)})")
        return ports[index]


def _following(ports: list[Output], descriptions: Sequence[PortDescription]) -> list[Output]:
    """Keep the ports that users may hold, with what is said of them now."""
    if not ports:
        return [Output(description) for description in descriptions]
    for port, description in zip(ports, descriptions, strict=True):
        port.follow(description)
    return ports


def _named(title: str, ports: list[Output], name: str) -> Output:
    for port in ports:
        if name in port.names:
            return port
    raise RuntimeError(f"{title} for tensor name '{name}' is not found.")


def _wire_name(port: Output) -> str:
    """The name the server finds the input by: it has one even where the model gives none."""
    return min(port.names) if port.names else port.description.oip_name


def _shape(shape: Any) -> PartialShape:
    return shape if isinstance(shape, PartialShape) else PartialShape(shape)
