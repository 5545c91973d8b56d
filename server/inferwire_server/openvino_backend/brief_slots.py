"""Slots for brief inferences on OpenVINO, which copy small inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import openvino as ov

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS, translated
from inferwire_server.openvino_backend.graphs import Graph
from inferwire_server.openvino_backend.slots import OpenVinoSlot

MAX_COPIED_INPUT_BYTES = 1 << 16
"""The largest input that is copied: to copy so much takes as long as to lend it."""


class OpenVinoBriefSlot(OpenVinoSlot):
    """One `InferRequest` for inferences so short that copying small inputs beats lending them to it.

    It keeps a tensor of its own for each input, of the shape that the input last had. No other slot uses its graphs.
    """

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run an inference as other slots do. After a failure, the next inference makes the graph anew.

        A failure is the inference's own: nothing runs beside it, and nothing has failed in its graph before.
        """
        if self._graphs.empty_inputs is not None:
            self._graphs.empty_inputs.check(self._spec, inputs)
        try:
            if self._graph is not (graph := self._graphs.mended()):
                self._move(graph)
            return self._run(inputs, outputs, transforms)
        except OPENVINO_ERRORS as error:
            raise translated(Code.INFERENCE_FAILED, error) from error

    def _use(self, graph: Graph, request: ov.InferRequest) -> None:
        super()._use(graph, request)
        self._kept: list[_KeptInput | None] = [None] * len(self._spec.inputs)

    def _run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms) -> tuple[Tensor, ...]:
        for tensor in inputs:
            if tensor.byte_size > MAX_COPIED_INPUT_BYTES:
                self._kept = [None] * len(inputs)
                return super()._run(inputs, outputs, transforms)
        for index, tensor in enumerate(inputs):
            kept = self._kept[index]
            if kept is None or kept.shape != tensor.shape:
                kept = _KeptInput(tensor)
                self._request.set_input_tensor(index, kept.runtime)
                self._kept[index] = kept
            kept.content[:] = tensor.data
        return self._infer(outputs, transforms)


class _KeptInput:
    """A tensor of the runtime, and its bytes to write to."""

    def __init__(self, like: Tensor) -> None:
        self.shape = like.shape
        self.runtime = ov.Tensor(getattr(ov.Type, like.element_type.name), ov.Shape(like.shape))
        self.content = self.runtime.data.reshape(-1).view(np.uint8).data
