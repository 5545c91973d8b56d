"""The record of an output: `OutputInfo` and its parts."""

from __future__ import annotations

from typing import Self

from inferwire.arguments import Unpicklable
from inferwire.preprocess.recording import ConvertingPart, LayoutPart
from inferwire.values.types import Type
from inferwire_proto.preprocessing import Call


class PostProcessSteps(ConvertingPart):
    """Steps from the model's output to the tensor that programs get, in order.

    Mirrors `openvino.preprocess.PostProcessSteps`.

    Differs from OpenVINO: no `custom`.
    """

    kind = "output"
    part = "postprocess"


class OutputTensorInfo(LayoutPart):
    """The tensor that programs get for an output. Mirrors `openvino.preprocess.OutputTensorInfo`."""

    kind = "output"
    part = "tensor"

    def set_element_type(self, type: Type) -> Self:  # noqa: A002 - openvino's name
        """Declare the wanted type of the elements. Mirrors `openvino.preprocess.OutputTensorInfo.set_element_type`.

        Raises:
            TypeError: For what is no type.
        """
        return self._record_type("set_element_type", "type: Type", type)


class OutputModelInfo(LayoutPart):
    """The output as the model gives it. Mirrors `openvino.preprocess.OutputModelInfo`."""

    kind = "output"
    part = "model"


class OutputInfo(Unpicklable):
    """The record of one output. Mirrors `openvino.preprocess.OutputInfo`."""

    def __init__(self, calls: list[Call], port: int) -> None:
        self._model = OutputModelInfo(calls, port)
        self._steps = PostProcessSteps(calls, port)
        self._tensor = OutputTensorInfo(calls, port)

    def model(self) -> OutputModelInfo:
        """Give the part that describes the model's output. Mirrors `openvino.preprocess.OutputInfo.model`."""
        return self._model

    def postprocess(self) -> PostProcessSteps:
        """Give the steps. Mirrors `openvino.preprocess.OutputInfo.postprocess`."""
        return self._steps

    def tensor(self) -> OutputTensorInfo:
        """Give the part that describes the tensor. Mirrors `openvino.preprocess.OutputInfo.tensor`."""
        return self._tensor
