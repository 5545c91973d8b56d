"""A model that was read but not compiled: `Model`.

Owns the new shapes, preprocessing, outputs and names a user gives it. The graph itself stays on the server, which reads
it anew for each compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast, overload

from inferwire.arguments import as_integer, as_size, incompatible, openvino_class
from inferwire.errors import InferwireError
from inferwire.graph.described import PortDescription
from inferwire.graph.foreign_ports import as_port
from inferwire.graph.nodes import Node, node_of
from inferwire.graph.ports import Output, copy_labels
from inferwire.models.added_outputs import Addable, as_added, output_of
from inferwire.models.graph_nodes import graph_node
from inferwire.models.model_files import ModelFiles
from inferwire.models.readable_model import ReadableModel
from inferwire.models.rt_info import RuntimeInfo
from inferwire.not_offered import refuse
from inferwire.tab_completion import TabCompleted
from inferwire.transport.descriptions import ModelContents, ModelDescription, Preprocessing
from inferwire.transport.protocol import Transport
from inferwire.values.layout import Layout, fits
from inferwire.values.partial_shape import PartialShape
from inferwire_proto.port_names import PortNames
from inferwire_proto.preprocessing import Call, Recording

Held = TypeVar("Held", Output, Node)

_RESHAPE_SIGNATURES = (
    "(self: Model, partial_shape: PartialShape | list | tuple | str, variables_shapes: dict = {}) -> None",
    "(self: Model, partial_shapes: dict, variables_shapes: dict = {}) -> None",
)


class Model(TabCompleted, RuntimeInfo, ReadableModel):
    """A model's ports, with the right to compile it. Mirrors `openvino.Model`.

    Made by `Core.read_model`; its constructor, which builds graphs in openvino, refuses to.

    Differs from OpenVINO: the graph is on the server, so that ports and nodes can be read, inputs reshaped,
    preprocessing built in, outputs added, and inputs and outputs named, but nothing else edited; a model that left its
    `with` block can still be used.

    Example:
        >>> model = core.read_model("model.xml")
        >>> model.reshape({"data": [1, 3]})
        >>> compiled = core.compile_model(model, "CPU")
    """

    _own_use = frozenset({"build_in", "contents", "describe_recording", "of"})

    _transport: Transport
    _files: ModelFiles
    _reshape: Mapping[str, PartialShape]
    _preprocessing: tuple[Preprocessing, ...]
    _nodes: Sequence[Node] | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        refuse("building a graph with openvino.Model()")

    @classmethod
    def of(
        cls,
        transport: Transport,
        files: ModelFiles,
        reshape: Mapping[str, PartialShape] | None = None,
        preprocessing: tuple[Preprocessing, ...] = (),
    ) -> Model:
        """Make one of files; for the SDK's own use, not in openvino."""
        model = object.__new__(cls)
        ReadableModel.__init__(model, "", (), ())
        model._transport, model._files = transport, files
        model._friendly_name = model._describe(reshape or {}, preprocessing).name
        return model

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        del memo
        return self.clone()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Keep the model: what openvino frees here is on the server, for as long as the session."""

    def clone(self) -> Model:
        """Give a model like this one, with ports of its own. Mirrors `openvino.Model.clone`.

        Raises:
            RuntimeError: If no server answers.
        """
        clone: Model = Model.of(self._transport, self._files, self._reshape, self._edits())
        clone.friendly_name = self._friendly_name
        if self._rt_info is not None:
            clone._rt_info = self._rt_info.clone()
        copy_labels((*self._inputs, *self._outputs), (*clone.inputs, *clone.outputs))
        return clone

    @overload
    def reshape(
        self, partial_shape: PartialShape | list[Any] | tuple[Any, ...] | str, variables_shapes: dict[str, Any] = ...
    ) -> None: ...
    @overload
    def reshape(self, partial_shapes: dict[Any, Any], variables_shapes: dict[str, Any] = ...) -> None: ...
    def reshape(self, *args: Any, **kwargs: Any) -> None:
        """Give inputs new shapes; the server tells what the others become.

        Mirrors `openvino.Model.reshape(partial_shape | partial_shapes, variables_shapes={})`.

        Differs from OpenVINO: shapes of variables are not offered.

        Args:
            args: The shape of the only input, or shapes by name, position or port: a length for each dimension, in
                elements, where -1 is any and (1, 5) from 1 to 5; or the same as text.
            kwargs: The same as `partial_shape` or `partial_shapes`.

        Raises:
            TypeError: For what is no shape or no key.
            IndexError: If there is no input at a position.
            RuntimeError: If there is no such input, or its layout or the model cannot take the shape.
        """
        given = _given_shapes(self, args, kwargs)
        if isinstance(given, dict):
            by_key = cast("dict[Any, Any]", given)
            shapes: dict[Output, PartialShape] = {}
            for key, shape in by_key.items():
                # Of two shapes for one input the first counts, as in openvino.
                shapes.setdefault(self._input_of(key), _shape_of(shape))
        else:
            shapes = {self._only_input(): PartialShape(given)}
        for port, shape in shapes.items():
            _check_layout(port, shape)
        self._take_shapes(shapes)

    def add_outputs(self, outputs: Addable | Sequence[Addable]) -> list[Output]:
        """Have the model give what its nodes compute inside, after its own outputs; nothing is given twice.

        Mirrors `openvino.Model.add_outputs`.

        Differs from OpenVINO: nothing is added if one of several is refused; an output without a name is called
        after its node, as "MatMul_3:0", and not by a number; nodes to which OpenVINO gave a number for a name, as to
        those of a `PrePostProcessor`, have another one each time that the server reads the model, and are not found.

        Example:
            >>> (features,) = model.add_outputs("pool5")
            >>> compiled = core.compile_model(model, "CPU")
            >>> vector = compiled(image)[features.any_name]

        Args:
            outputs: What to give, one or a list of them: the name of a tensor, the friendly name of a node with the
                position of its output, or an output of a node (`get_ordered_ops`).

        Returns:
            The model's output for each of them.

        Raises:
            TypeError: For anything else.
            IndexError: For a tuple of less than two items.
            RuntimeError: If there is no such tensor, node or output, or no server answers.
        """
        wanted = as_added(outputs)
        # Only outputs that are not given yet are asked for: a "Result" may be named anew each time the model is read.
        missing = tuple(each for each in wanted if output_of(self._outputs, each) is None)
        before = self._edits()
        if missing:
            self._describe(self._reshape, (*before, Preprocessing(added_outputs=missing)))
        found = [output_of(self._outputs, each) for each in wanted]
        given = [port for port in found if port is not None]
        if len(given) < len(found):
            self._preprocessing = before
            raise InferwireError(f"the server at {self._transport.address}, an older one, adds no outputs to models")
        return given

    def get_ordered_ops(self) -> list[Node]:
        """Give the nodes in an order in which they can run. Mirrors `openvino.Model.get_ordered_ops`.

        Differs from OpenVINO: the server is asked for them once; nodes that were given before a new shape was, tell of
        the old one.

        Raises:
            RuntimeError: If no server answers.
        """
        if self._nodes is None:
            graph = self._transport.graph(self.contents)
            described = (*graph.model.inputs, *graph.model.outputs, *graph.model.sinks)
            ends = zip(described, (*self.parameters, *self.results, *self._sinks), strict=True)
            own = {(end.node_type, end.node_name): node for end, node in ends}
            self._nodes = [
                own.get((node.description.node_type, node.description.node_name)) or graph_node(node)
                for node in graph.nodes
            ]
        return list(self._nodes)

    def get_ops(self) -> list[Node]:
        """Give the nodes, as `get_ordered_ops`. Mirrors `openvino.Model.get_ops`."""
        return self.get_ordered_ops()

    def build_in(self, calls: Sequence[Call]) -> None:
        """Have the server build recorded calls in, which gives new inputs; for `PrePostProcessor`, not in openvino."""
        replaced = self._inputs
        description = self._describe(self._reshape, (*self._edits(), Preprocessing(tuple(calls))), are_new=True)
        # Otherwise an input became planes of a picture, which have names of their own.
        if len(self._inputs) == len(replaced):
            for port, old in zip(self._inputs, replaced, strict=True):
                if old.node.friendly_name != old.node.name:
                    port.node.friendly_name = old.node.friendly_name
        for port, described in zip(self._outputs, description.outputs, strict=True):
            port.node.layout = Layout(described.layout)

    def describe_recording(self, contents: ModelContents, recording: Recording) -> str:
        """Have the server say what is recorded of this model, as it was; for `PrePostProcessor`, not in openvino."""
        with self._files.told_in_own_words():
            return self._transport.describe_preprocessing(contents, recording)

    @property
    def contents(self) -> ModelContents:
        """What any server makes it of, the one that read it or another; for the SDK's own use, not in openvino."""
        return self._files.contents(self._reshape, self._edits())

    def _edits(self) -> tuple[Preprocessing, ...]:
        """Give what is built in, and the names that the server was not told yet."""
        named = tuple(
            PortNames(is_output, index, port.description.names)
            for is_output, ports in ((False, self._inputs), (True, self._outputs))
            for index, port in enumerate(ports)
            if port.node.is_renamed
        )
        return (*self._preprocessing, Preprocessing(names=named)) if named else self._preprocessing

    def _describe(
        self, reshape: Mapping[str, PartialShape], preprocessing: tuple[Preprocessing, ...], *, are_new: bool = False
    ) -> ModelDescription:
        """Ask the server for the ports that result from these edits, and keep both; if it refuses, change nothing."""
        with self._files.told_in_own_words():
            description = self._transport.read(self._files.contents(reshape, preprocessing))
        if not are_new:
            _check_results(self._outputs, description.outputs)
        self._reshape, self._preprocessing, self._nodes = reshape, preprocessing, None
        self._inputs = _following([] if are_new else self._inputs, description.inputs, _output)
        self._outputs = _following(self._outputs, description.outputs, _output)
        self._sinks = _following(self._sinks, description.sinks, node_of)
        return description

    def _take_shapes(self, shapes: Mapping[Output, PartialShape]) -> None:
        """Have the server reshape inputs: by name or, if no name tells an input apart, by position."""
        keys = {port: _only_name(port, self._inputs) for port in shapes}
        named = {name: shapes[port] for port, name in keys.items() if name is not None}
        positions = {self._inputs.index(port): shapes[port] for port, name in keys.items() if name is None}
        edits = self._edits()
        if not edits and not positions:
            self._describe({**self._reshape, **named}, ())
            return
        *before, last = edits or (Preprocessing(),)
        further = {**last.reshape_positions, **positions}
        reshaped = replace(last, reshape={**last.reshape, **named}, reshape_positions=further)
        self._describe(self._reshape, (*before, reshaped))
        if any(self._inputs[position].partial_shape != shape for position, shape in positions.items()):
            self._describe(self._reshape, edits)
            raise InferwireError(
                f"the server at {self._transport.address}, an older one, reshapes no inputs without names of their own"
            )

    def _input_of(self, key: object) -> Output:
        if isinstance(key, Output):
            if key not in self._inputs:
                raise RuntimeError(f"PartialShape for port {key!r} is not used in Model::reshape")
            return self._inputs[self._inputs.index(key)]
        theirs = as_port(key) if openvino_class(key) else None
        if theirs is not None:
            return self.input(theirs.any_name)
        if not isinstance(key, str) and as_integer(key) is None:
            raise TypeError(
                f"Incorrect key type {type(key)} to reshape a model, expected keys as openvino.Output, int or str."
            )
        if not isinstance(key, str) and as_size(key) is None:
            raise RuntimeError(f"Unable to cast Python instance of type {type(key)} to an input's position: {key}")
        return self.input(cast("int | str", key))

    def _only_input(self) -> Output:
        if len(self._inputs) != 1:
            raise RuntimeError("must be called on a Model with exactly one parameter.")
        return self._inputs[0]


def check_model(value: object) -> None:
    """Refuse anything but a model that a `Core` has read; of a model of openvino's, say how a `Core` reads it.

    Raises:
        TypeError: For anything else.
    """
    if not isinstance(value, Model):
        instead = "; Core.read_model() makes one of an installed openvino's" if openvino_class(value) == "Model" else ""
        raise TypeError(f"Incompatible `model` argument. Please provide a valid openvino.Model instance{instead}.")


def _output(description: PortDescription) -> Output:
    return Output(node_of(description))


def _following(
    held: list[Held], descriptions: Sequence[PortDescription], make: Callable[[PortDescription], Held]
) -> list[Held]:
    """Update the ports or nodes that users may hold to the new descriptions, and make those that come behind them."""
    for each, description in zip(held, descriptions[: len(held)], strict=True):
        each.follow(description)
    return [*held, *(make(description) for description in descriptions[len(held) :])]


def _check_layout(port: Output, shape: PartialShape) -> None:
    if not fits(port.node.layout, shape):
        what = f"{port.node.friendly_name} () -> ({port.element_type.type_name}{port.partial_shape})"
        raise RuntimeError(
            f"Can't set partial shape {shape} for Parameter opset1::Parameter {what} with layout {port.node.layout}. "
            "Layout is not compatible with shape"
        )


def _check_results(ports: Sequence[Output], descriptions: Sequence[PortDescription]) -> None:
    """Refuse edits that would give an output a shape that does not fit the layout that a program has given it."""
    for port, described in zip(ports, descriptions, strict=False):
        layout, shape = port.node.layout, described.partial_shape
        if not fits(layout, shape):
            what = f"opset1::Result {port.node.friendly_name}[0]:{described.element_type.type_name}{shape}"
            raise RuntimeError(f"Result '{what}' with shape {shape} is incompatible with layout {layout}")


def _only_name(port: Output, ports: Sequence[Output]) -> str | None:
    """Give a name that no other port has; None if there is none, as when a program has taken all names away."""
    taken = {name for each in ports if each != port for name in each.names}
    return min(port.names - taken, default=None)


def _given_shapes(model: Model, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Give the shapes among the arguments of `reshape`; refuse shapes of variables."""
    named = dict(kwargs)
    variables = args[1] if len(args) == 2 else named.pop("variables_shapes", {})
    shapes = [*args[:1], *(named.pop(name) for name in ("partial_shape", "partial_shapes") if name in named)]
    if shapes and openvino_class(shapes[0]) == "PartialShape":
        shapes[0] = PartialShape(shapes[0])
    is_shape = len(shapes) == 1 and isinstance(shapes[0], PartialShape | list | tuple | str | dict)
    if not is_shape or named or len(args) > 2 or not isinstance(variables, dict):
        raise incompatible("reshape", *_RESHAPE_SIGNATURES, invoked=(model, *args), keywords=kwargs)
    if variables:
        refuse("reshape() of variables")
    return cast("Any", shapes[0])


def _shape_of(shape: object) -> PartialShape:
    if openvino_class(shape) in ("PartialShape", "Shape"):
        return PartialShape(cast("Any", shape))
    if not isinstance(shape, PartialShape | list | tuple | str):
        raise TypeError(
            f"Incorrect value type {type(shape)} to reshape a model, "
            "expected values as openvino.PartialShape, str, list or tuple."
        )
    return PartialShape(cast("Any", shape))
