"""What can be asked of a model beside its ports: its parameters and results, and what its file says of itself.

Owns openvino's overloads for these. The graph in between is the server's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inferwire.arguments import as_size, incompatible, is_list
from inferwire.model_files import ModelFiles
from inferwire.not_offered import PartlyMirrored
from inferwire.ov_any import OVAny
from inferwire.partial_shape import PartialShape
from inferwire.ports import ConstOutput, Node
from inferwire.rt_info import found_at, read_rt_info, set_at
from inferwire.shapes import Shape
from inferwire.types import Type

if TYPE_CHECKING:
    from inferwire.model import Output


class ModelNodes(PartlyMirrored, ABC):
    """The part of a model that gives its nodes and its runtime information."""

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._rt_info: dict[str, Any] | None = None

    @property
    @abstractmethod
    def inputs(self) -> list[Output]:
        """The inputs in the model's order."""

    @property
    @abstractmethod
    def outputs(self) -> list[Output]:
        """The outputs in the model's order."""

    @property
    def parameters(self) -> list[Node]:
        """The nodes behind the inputs."""
        return [port.node for port in self.inputs]

    @property
    def results(self) -> list[Node]:
        """The nodes behind the outputs."""
        return [port.node for port in self.outputs]

    @property
    def result(self) -> Node:
        """The node behind the only output.

        Raises:
            RuntimeError: If there are several.
        """
        nodes = self.results
        if len(nodes) != 1:
            raise RuntimeError("get_result() must be called on a function with exactly one result.")
        return nodes[0]

    @property
    def rt_info(self) -> dict[str, Any]:
        """What the model's file says of itself, by name: an `OVAny` each, or a dict of what is below."""
        if self._rt_info is None:
            self._rt_info = read_rt_info(self._files)
        return self._rt_info

    def get_parameters(self) -> list[Node]:
        """Give `parameters`."""
        return self.parameters

    def get_results(self) -> list[Node]:
        """Give `results`."""
        return self.results

    def get_result(self) -> Node:
        """Give `result`."""
        return self.result

    def get_ordered_ops(self) -> list[Node]:
        """Give the nodes, of which parameters and results are known here.

        Differs from OpenVINO: what is between them is not there.
        """
        return [*self.parameters, *self.results]

    def get_parameter_index(self, parameter: Node) -> int:
        """Give the position of the input that a node is behind, -1 for any other."""
        return _position(parameter, self.parameters)

    def get_result_index(self, value: Node | ConstOutput) -> int:
        """Give the position of an output, or of the one that a node is behind, -1 for any other."""
        return _position(value.node if isinstance(value, ConstOutput) else value, self.results)

    def get_output_size(self) -> int:
        """Give the number of outputs."""
        return len(self.outputs)

    def get_output_element_type(self, index: int) -> Type:
        """Give the type of an output's elements."""
        return self._output("get_output_element_type", index).element_type

    def get_output_shape(self, index: int) -> Shape:
        """Give the shape of an output, where it is known in full.

        Raises:
            RuntimeError: Where it is not.
        """
        return self._output("get_output_shape", index).shape

    def get_output_partial_shape(self, index: int) -> PartialShape:
        """Give what shapes an output has."""
        return self._output("get_output_partial_shape", index).partial_shape

    def get_rt_info(self, path: str | Sequence[str] | None = None) -> Any:
        """Give what the model's file says of itself: all of it, or what a name or a path of names leads to.

        Mirrors `openvino.Model.get_rt_info`. IR and ONNX files have such information, read on this side.

        Raises:
            TypeError: For what is no path.
            RuntimeError: For one that leads nowhere.
        """
        if path is None:
            return self.rt_info
        found = found_at(self.rt_info, _path("get_rt_info", self, path))
        if found is None:
            raise RuntimeError("Cannot get runtime attribute. Path to runtime attribute is incorrect.")
        return found if isinstance(found, OVAny) else OVAny(found)

    def has_rt_info(self, path: str | Sequence[str]) -> bool:
        """Tell whether a name or a path of names leads somewhere. Mirrors `openvino.Model.has_rt_info`."""
        return found_at(self.rt_info, _path("has_rt_info", self, path)) is not None

    def set_rt_info(self, obj: object, path: str | Sequence[str]) -> None:
        """Put a value where a name or a path of names leads; it stays on this side.

        Mirrors `openvino.Model.set_rt_info`.
        """
        set_at(self.rt_info, _path("set_rt_info", self, path), obj)

    def _output(self, function: str, index: int) -> Output:
        at = as_size(index)
        if at is None:
            raise incompatible(function, "(self: Model, index: int)", invoked=(self, index))
        ports = self.outputs
        if at >= len(ports):
            raise RuntimeError(f"the model has {len(ports)} outputs, so that {at} is out of range")
        return ports[at]


def _position(node: Node, nodes: Sequence[Node]) -> int:
    return next((at for at, each in enumerate(nodes) if each is node), -1)


def _path(function: str, owner: object, path: object) -> str | list[str]:
    if isinstance(path, str) or (is_list(path) and path and all(isinstance(name, str) for name in path)):
        return path
    signatures = ("(self: Model, path: list[str])", "(self: Model, path: str)")
    raise incompatible(function, *signatures, invoked=(owner, path))
