"""The record of the steps around a whole model, until they are built in: `PrePostProcessor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

from inferwire.arguments import Unpicklable, as_size, in_order, incompatible
from inferwire.errors import InferwireError
from inferwire.graph.ports import Port
from inferwire.models.model import Model, check_model
from inferwire.preprocess.inputs import InputInfo
from inferwire.preprocess.outputs import OutputInfo
from inferwire.values.layout import Layout
from inferwire_proto.preprocessing import Call, PortLayout, Recording

Info = TypeVar("Info", InputInfo, OutputInfo)


class PrePostProcessor(Unpicklable):
    """Steps before and after a model, to be part of it. Mirrors `openvino.preprocess.PrePostProcessor`.

    Differs from OpenVINO: the steps are recorded here and built in on the server, so that `build`
    raises the errors about steps that do not go together, even those that openvino raises when a step is called. `str`
    has openvino's text from the server; if the server does not answer, or openvino's `str` raises an error, it gives
    the calls and the reason.

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
        self._built_calls = 0
        self._input_ports, self._output_ports = model.inputs, model.outputs
        self._inputs = [InputInfo(self._calls, index) for index in range(len(self._input_ports))]
        self._outputs = [OutputInfo(self._calls, index) for index in range(len(self._output_ports))]
        self._look_at_model()

    def __repr__(self) -> str:
        return f"<PrePostProcessor: {self}>"

    def __str__(self) -> str:
        if not self._calls:
            return ""
        self._look_at_model()
        recording = Recording(tuple(self._calls), self._layouts, self._built_calls)
        try:
            return self._model.describe_recording(self._contents, recording)
        except InferwireError as error:
            return "".join([*(f"{_text(call)}\n" for call in self._calls), f"\nError occurred: {error}\n"])

    @overload
    def input(self) -> InputInfo: ...
    @overload
    def input(self, tensor_name: str) -> InputInfo: ...
    @overload
    def input(self, input_index: SupportsIndex) -> InputInfo: ...
    def input(self, *args: Any, **kwargs: Any) -> InputInfo:
        """Give the record of an input by its position or one of its names; without a key, that of the only one.

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
        """Give the record of an output by its position or one of its names; without a key, that of the only one.

        Mirrors `openvino.preprocess.PrePostProcessor.output`.

        Raises:
            TypeError: For any other key.
            RuntimeError: If there is no such output, or more than one.
        """
        return self._info("output", self._outputs, self._output_ports, args, kwargs)

    def build(self) -> Model:
        """Build the recorded steps into the model, once, and give the model, whose inputs are new ones then.

        Mirrors `openvino.preprocess.PrePostProcessor.build`.

        Raises:
            RuntimeError: If OpenVINO refuses, with its reason, as `inferwire.ModelFailed`; nothing has changed then.
        """
        if self._model.inputs != self._input_ports:
            raise RuntimeError(
                "Parameter to replace has been replaced by previous steps of preprocessing. "
                "Use only one InputInfo for one input parameter"
            )
        self._look_at_model()
        self._model.build_in([*map(_of_model, self._layouts), *self._calls])
        self._built_calls = len(self._calls)
        return self._model

    def _look_at_model(self) -> None:
        """Note the model's contents and layouts, unless steps have been built in, which gave it other inputs."""
        if self._model.inputs != self._input_ports:
            return
        self._contents = self._model.contents
        self._layouts = tuple(
            PortLayout(is_output, index, str(port.node.layout))
            for is_output, ports in ((False, self._input_ports), (True, self._output_ports))
            for index, port in enumerate(ports)
            if not (port.node.layout.empty and Layout(port.description.layout).empty)
        )

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


def _of_model(port: PortLayout) -> Call:
    """Give the call that sets the layout of a port's node; recorded calls come after it, and override it."""
    return Call("output" if port.is_output else "input", port.index, "model", "set_layout", (port.layout,))


def _text(call: Call) -> str:
    arguments = ", ".join(str(getattr(each, "name", each)) for each in call.arguments)
    return f"{call.kind}({call.port}).{call.part}().{call.method}({arguments})"
