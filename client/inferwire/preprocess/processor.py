"""What is recorded of a whole model, until it is built in: `PrePostProcessor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

from inferwire.arguments import Unpicklable, as_size, in_order, incompatible
from inferwire.graph.ports import Port
from inferwire.models.model import Model, check_model
from inferwire.preprocess.inputs import InputInfo
from inferwire.preprocess.outputs import OutputInfo
from inferwire_proto.preprocessing import Call

Info = TypeVar("Info", InputInfo, OutputInfo)


class PrePostProcessor(Unpicklable):
    """Steps before and after a model, to be part of it. Mirrors `openvino.preprocess.PrePostProcessor`.

    Differs from OpenVINO: the steps are recorded here and built in on the server, so that `build` says what
    does not go together, also where openvino's call does; `str` gives the calls, not what they come to.

    Example:
        >>> processor = PrePostProcessor(model)
        >>> image = processor.input("image")
        >>> image.tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
        >>> image.model().set_layout(ov.Layout("NCHW"))
        >>> image.preprocess().convert_element_type(ov.Type.f32).mean(127).scale(128)
        >>> compiled = core.compile_model(processor.build(), "CPU")

    Raises:
        TypeError: For what is no model of `Core.read_model`.
    """

    def __init__(self, model: Model) -> None:
        check_model(model)
        self._model = model
        self._calls: list[Call] = []
        self._is_built = False
        self._input_ports, self._output_ports = model.inputs, model.outputs
        self._inputs = [InputInfo(self._calls, index) for index in range(len(self._input_ports))]
        self._outputs = [OutputInfo(self._calls, index) for index in range(len(self._output_ports))]

    def __repr__(self) -> str:
        return f"<PrePostProcessor: {self}>"

    def __str__(self) -> str:
        return "".join(f"{_text(call)}\n" for call in self._calls)

    @overload
    def input(self) -> InputInfo: ...
    @overload
    def input(self, tensor_name: str) -> InputInfo: ...
    @overload
    def input(self, input_index: SupportsIndex) -> InputInfo: ...
    def input(self, *args: Any, **kwargs: Any) -> InputInfo:
        """Give what is recorded of an input, by its position or one of its names; without, of the only one.

        Mirrors `openvino.preprocess.PrePostProcessor.input`.

        Raises:
            TypeError: For any other key.
            RuntimeError: If there is no such input, or more than one.
        """
        return self._info("input", self._inputs, self._input_ports, args, kwargs)

    @overload
    def output(self) -> OutputInfo: ...
    @overload
    def output(self, tensor_name: str) -> OutputInfo: ...
    @overload
    def output(self, output_index: SupportsIndex) -> OutputInfo: ...
    def output(self, *args: Any, **kwargs: Any) -> OutputInfo:
        """Give what is recorded of an output, by its position or one of its names; without, of the only one.

        Mirrors `openvino.preprocess.PrePostProcessor.output`.

        Raises:
            TypeError: For any other key.
            RuntimeError: If there is no such output, or more than one.
        """
        return self._info("output", self._outputs, self._output_ports, args, kwargs)

    def build(self) -> Model:
        """Build what was recorded into the model, once, and give the model: its inputs are new ones.

        Mirrors `openvino.preprocess.PrePostProcessor.build`.

        Raises:
            RuntimeError: With OpenVINO's reason where it refuses, as `inferwire.ModelFailed`; nothing has changed then.
        """
        if self._is_built:
            raise RuntimeError(
                "Parameter to replace has been replaced by previous steps of preprocessing. "
                "Use only one InputInfo for one input parameter"
            )
        self._model.build_in([*self._layouts_of_nodes(), *self._calls])
        self._is_built = True
        return self._model

    def _layouts_of_nodes(self) -> list[Call]:
        """Say of the model what its nodes do; what was recorded comes later, and wins."""
        ports = [("input", self._input_ports), ("output", self._output_ports)]
        return [
            Call(kind, index, "model", "set_layout", (str(port.node.layout),))
            for kind, each in ports
            for index, port in enumerate(each)
            if not port.node.layout.empty
        ]

    def _info(
        self,
        kind: str,
        infos: Sequence[Info],
        ports: Sequence[Port],
        args: tuple[object, ...],
        keywords: Mapping[str, object],
    ) -> Info:
        title = f"PrePostProcessor::{kind}"
        if not args and not keywords:
            if len(infos) != 1:
                raise RuntimeError(f"{title}() - Model must have exactly one {kind}, got {len(infos)}")
            return infos[0]
        (key,) = in_order(args, keywords, ("tensor_name",), (f"{kind}_index",)) or (None,)
        if isinstance(key, str):
            return infos[_named(kind, ports, key)]
        index = as_size(key)
        if index is None:
            keys = ("", ", tensor_name: str", f", {kind}_index: int")
            signatures = (f"(self: PrePostProcessor{each})" for each in keys)
            raise incompatible(kind, *signatures, invoked=(self, *args), keywords=keywords)
        if index >= len(infos):
            raise RuntimeError(
                f"{title}(size_t) - Model doesn't have input with index {index}. Total number of inputs is {len(infos)}"
            )
        return infos[index]


def _named(kind: str, ports: Sequence[Port], name: str) -> int:
    for index, port in enumerate(ports):
        if name in port.names:
            return index
    raise RuntimeError(f"Model doesn't have {kind} with name {name}")


def _text(call: Call) -> str:
    arguments = ", ".join(str(getattr(each, "name", each)) for each in call.arguments)
    return f"{call.kind}({call.port}).{call.part}().{call.method}({arguments})"
