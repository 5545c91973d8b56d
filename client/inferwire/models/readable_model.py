"""What can be read of a model that is not compiled: its ports, and the nodes behind them.

Owns the lookups with openvino's texts. Where the ports come from is the business of derived classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, SupportsIndex, cast, overload

from inferwire.arguments import Unpicklable, as_size, in_order, incompatible
from inferwire.graph.nodes import Node, Parameter
from inferwire.graph.ports import Output, Port, port_named
from inferwire.not_offered import PartlyMirrored
from inferwire.values.partial_shape import PartialShape
from inferwire.values.shapes import Shape
from inferwire.values.types import Type

_NUMBERS = itertools.count(1)


class ReadableModel(Unpicklable, PartlyMirrored):
    """A model's ports, by position and name. Mirrors the part of `openvino.Model` that reads them."""

    _mirrors = "Model"

    def __init__(self, friendly_name: str, inputs: Sequence[Output], outputs: Sequence[Output]) -> None:
        self._friendly_name = friendly_name
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._sinks: list[Node] = []
        self._name = f"Model{next(_NUMBERS)}"

    def __repr__(self) -> str:
        # OpenVINO calls them by the other class here.
        inputs = ",\n".join(f"<ConstOutput: {port.facts()}>" for port in self._inputs)
        outputs = ",\n".join(f"<ConstOutput: {port.facts()}>" for port in self._outputs)
        return f"<Model: '{self.friendly_name}'\ninputs[\n{inputs}\n]\noutputs[\n{outputs}\n]>"

    def __copy__(self) -> NoReturn:
        raise TypeError("Cannot copy 'inferwire.Model'. Please, use deepcopy instead.")

    @property
    def inputs(self) -> list[Output]:
        """The inputs in the model's order. Mirrors `openvino.Model.inputs`."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Output]:
        """The outputs in the model's order. Mirrors `openvino.Model.outputs`."""
        return list(self._outputs)

    @property
    def name(self) -> str:
        """A name that no other model of this process has. Mirrors `openvino.Model.name`."""
        return self._name

    @property
    def friendly_name(self) -> str:
        """The name for people; setting it changes nothing on the server. Mirrors `openvino.Model.friendly_name`."""
        return self._friendly_name

    @friendly_name.setter
    def friendly_name(self, name: str) -> None:
        self.set_friendly_name(name)

    @property
    def dynamic(self) -> bool:
        """Whether an input or output has a shape that is not known in full. Mirrors `openvino.Model.dynamic`."""
        return any(port.partial_shape.is_dynamic for port in (*self._inputs, *self._outputs))

    @property
    def parameters(self) -> list[Parameter]:
        """The nodes behind the inputs. Mirrors `openvino.Model.parameters`."""
        return [cast("Parameter", port.node) for port in self._inputs]

    @property
    def results(self) -> list[Node]:
        """The nodes behind the outputs. Mirrors `openvino.Model.results`."""
        return [port.node for port in self._outputs]

    @property
    def result(self) -> Node:
        """The node behind the only output. Mirrors `openvino.Model.result`."""
        return self.get_result()

    @property
    def sinks(self) -> list[Node]:
        """The nodes that write the model's states; none if it keeps none. Mirrors `openvino.Model.sinks`."""
        return list(self._sinks)

    def get_name(self) -> str:
        """Give `name`."""
        return self.name

    def get_friendly_name(self) -> str:
        """Give `friendly_name`."""
        return self.friendly_name

    def set_friendly_name(self, name: str) -> None:
        """Set `friendly_name`.

        Raises:
            TypeError: For what is no text.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise incompatible("set_friendly_name", "(self: Model, name: str) -> None", invoked=(self, name))
        self._friendly_name = name

    def is_dynamic(self) -> bool:
        """Give `dynamic`."""
        return self.dynamic

    @overload
    def input(self, index: SupportsIndex = ...) -> Output: ...
    @overload
    def input(self, tensor_name: str) -> Output: ...
    def input(self, *args: Any, **kwargs: Any) -> Output:
        """Give an input by its position or one of its names; without, the only one.

        Mirrors `openvino.Model.input(index | tensor_name)`.

        Raises:
            TypeError: For any other key.
            IndexError: If there is no such position.
            RuntimeError: If there is no such name, or more than one input.
        """
        return self._port("input", self._inputs, args, kwargs)

    @overload
    def output(self, index: SupportsIndex = ...) -> Output: ...
    @overload
    def output(self, tensor_name: str) -> Output: ...
    def output(self, *args: Any, **kwargs: Any) -> Output:
        """Give an output by its position or one of its names; without, the only one.

        Mirrors `openvino.Model.output(index | tensor_name)`.

        Raises:
            TypeError: For any other key.
            IndexError: If there is no such position.
            RuntimeError: If there is no such name, or more than one output.
        """
        return self._port("output", self._outputs, args, kwargs)

    def get_parameters(self) -> list[Parameter]:
        """Give `parameters`."""
        return self.parameters

    def get_results(self) -> list[Node]:
        """Give `results`."""
        return self.results

    def get_result(self) -> Node:
        """Give the node behind the only output. Mirrors `openvino.Model.get_result`.

        Raises:
            RuntimeError: If there is more than one.
        """
        if len(self._outputs) != 1:
            raise RuntimeError("get_result() must be called on a Model with exactly one result.")
        return self._outputs[0].node

    def get_sinks(self) -> list[Node]:
        """Give `sinks`."""
        return self.sinks

    def get_parameter_index(self, parameter: Parameter) -> int:
        """Give the position of the input that a node is behind; -1 if it is behind none.

        Mirrors `openvino.Model.get_parameter_index`.

        Raises:
            TypeError: For what is no parameter.
        """
        if not isinstance(parameter, Parameter | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "(self: Model, parameter: op.Parameter) -> int"
            raise incompatible("get_parameter_index", signature, invoked=(self, parameter))
        return _index_of(parameter, self.parameters)

    @overload
    def get_result_index(self, value: Port) -> int: ...
    @overload
    def get_result_index(self, result: Node) -> int: ...
    def get_result_index(self, *args: Any, **kwargs: Any) -> int:
        """Give the position of an output, or of the one that a node is behind; -1 if there is none.

        Mirrors `openvino.Model.get_result_index(value | result)`.

        Raises:
            TypeError: For what is neither a port nor a node.
        """
        (given,) = in_order(args, kwargs, ("value",), ("result",)) or (None,)
        node = given.node if isinstance(given, Port) else given
        if not isinstance(node, Node):
            signatures = ("(self: Model, value: Output | ConstOutput) -> int", "(self: Model, result: Node) -> int")
            raise incompatible("get_result_index", *signatures, invoked=(self, *args), keywords=kwargs)
        return _index_of(node, self.results)

    def get_sink_index(self, sink: Node) -> int:
        """Give the position of a node among `sinks`; -1 if it is none. Mirrors `openvino.Model.get_sink_index`.

        Raises:
            TypeError: For what is no node.
        """
        if not isinstance(sink, Node):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("Incorrect argument type. Sink node is expected as argument.")
        return _index_of(sink, self._sinks)

    def get_output_size(self) -> int:
        """Give the number of outputs. Mirrors `openvino.Model.get_output_size`."""
        return len(self._outputs)

    def get_output_shape(self, index: SupportsIndex) -> Shape:
        """Give the shape of an output. Mirrors `openvino.Model.get_output_shape`.

        Raises:
            TypeError: For what is no position.
            IndexError: If there is no such output.
            RuntimeError: If the shape is not known in full.
        """
        return self._output_at("get_output_shape", index).shape

    def get_output_partial_shape(self, index: SupportsIndex) -> PartialShape:
        """Give the shapes that an output can have. Mirrors `openvino.Model.get_output_partial_shape`.

        Raises:
            TypeError: For what is no position.
            IndexError: If there is no such output.
        """
        return self._output_at("get_output_partial_shape", index).partial_shape

    def get_output_element_type(self, index: SupportsIndex) -> Type:
        """Give the type of an output's elements. Mirrors `openvino.Model.get_output_element_type`.

        Raises:
            TypeError: For what is no position.
            IndexError: If there is no such output.
        """
        return self._output_at("get_output_element_type", index).element_type

    def _output_at(self, function: str, index: object) -> Output:
        position = as_size(index)
        if position is None:
            raise incompatible(function, "(self: Model, index: int)", invoked=(self, index))
        return _at(self._outputs, position)

    def _port(
        self, kind: str, ports: Sequence[Output], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> Output:
        if not args and not kwargs:
            if len(ports) != 1:
                what = "parameter" if kind == "input" else "result"
                raise RuntimeError(f"{kind}() must be called on a Model with exactly one {what}.")
            return ports[0]
        (key,) = in_order(args, kwargs, ("index",), ("tensor_name",)) or (None,)
        if isinstance(key, str):
            return port_named(kind, ports, key)
        index = as_size(key)
        if index is None:
            signatures = ("(self: Model, index: int)", "(self: Model, tensor_name: str)")
            raise incompatible(kind, *signatures, invoked=(self, *args), keywords=kwargs)
        return _at(ports, index)


def _at(ports: Sequence[Output], index: int) -> Output:
    if index >= len(ports):
        raise IndexError(f"vector::_M_range_check: __n (which is {index}) >= this->size() (which is {len(ports)})")
    return ports[index]


def _index_of(node: Node | None, nodes: Sequence[Node]) -> int:
    return next((index for index, own in enumerate(nodes) if own is node), -1)
