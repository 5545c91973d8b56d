"""Slots on OpenVINO: each reuses one request, to which inputs are lent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import openvino as ov

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.job import Transform, Transforms
from inferwire_server.core.specs import ModelSpec
from inferwire_server.core.states import ReadStates, ResetStates, StateAccess, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS, translate, translated
from inferwire_server.openvino_backend.graphs import Graph, Graphs
from inferwire_server.openvino_backend.layers import layer_times
from inferwire_server.openvino_backend.screening.first_values import BEGUN
from inferwire_server.openvino_backend.tensors import from_runtime, to_runtime, view_of


class OpenVinoSlot:
    """One `InferRequest`, reused for all inferences. A model's states begin afresh for each, unless it `keeps_states`.

    The request reads its inputs where the caller's bytes lie and does not keep them alive: the
    caller holds them until `run` returns, and before that the request gets its own tensors back.
    """

    def __init__(self, graphs: Graphs, spec: ModelSpec, *, keeps_states: bool = False) -> None:
        self._graphs = graphs
        self._spec = spec
        self._keeps_states = keeps_states
        self._resets_states = bool(spec.states) and not keeps_states
        self._prefixes = [spec.prefix_of(index) for index in range(len(spec.inputs))]
        self._are_texts = [index in graphs.text_inputs for index in range(len(spec.inputs))]
        self._use(graphs.current, graphs.current.create_request())

    def _use(self, graph: Graph, request: ov.InferRequest) -> None:
        """Use this request, which belongs to this graph, from now on."""
        self._own_inputs = [_own_input(request, index) for index in range(len(self._spec.inputs))]
        # Set last: Python frees an object's attributes in the order in which they were first set, and a model is to be
        # freed with the last of its requests (see `Opened.free`).
        self._graph, self._request = graph, request

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run an inference and give copies of the outputs asked for, or what their transforms make of them."""
        if self._graphs.empty_inputs is not None:
            self._graphs.empty_inputs.check(self._spec, inputs)
        if self._may_fail(inputs):
            with self._graphs.renewing:
                # Ask again: the inference that this one has waited for may have had the same shapes or the same inputs.
                if self._may_fail(inputs) and (graph := self._graphs.another()) is not None:
                    return self._run_apart(graph, inputs, outputs, transforms)
        try:
            return self._run_trusted(inputs, outputs, transforms)
        except OPENVINO_ERRORS as error:
            failure = translated(Code.INFERENCE_FAILED, error)
            failure.__cause__ = error

        def run_in(graph: Graph) -> tuple[Tensor, ...]:
            if failure.code is Code.INFERENCE_FAILED and self._may_run_again():
                return self._run_first(graph, inputs, outputs, transforms)
            self._move(graph)
            raise failure

        # An earlier inference that failed in this graph may be the cause: run this one again in a new graph.
        return self._graphs.run_anew(run_in, self._graph, failure)

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset states, and give copies of what was read."""
        return translate(Code.INVALID_INPUT, lambda: self._access(states))

    def cancel(self) -> None:
        """Stop the inference that runs, if the device can, and if that leaves nothing behind for the next one."""
        if not self._graphs.can_be_spoilt:
            self._request.cancel()

    def profile(self) -> tuple[LayerTime, ...]:
        """Give what each layer took in the last run."""
        return translate(Code.INFERENCE_FAILED, lambda: layer_times(self._request))

    def _may_run_again(self) -> bool:
        """Tell whether an inference that failed has left its slot as it was."""
        return True

    def _move(self, graph: Graph) -> None:
        """Run in another graph from now on."""
        self._use(graph, graph.create_request())

    def _go_back(self) -> None:
        """Undo a run whose outputs cannot be trusted, and move to a graph that can be."""
        self._move(self._graphs.good())

    def _run_trusted(
        self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms
    ) -> tuple[Tensor, ...]:
        """Run in a graph in which no inference has failed, and run again if another slot's fails in it meanwhile."""
        if self._graph is not (graph := self._graphs.good()):
            self._move(graph)
        given = self._run(inputs, outputs, transforms)
        while self._graphs.can_be_spoilt and not self._graph.is_trusted():
            self._go_back()
            given = self._run(inputs, outputs, transforms)
        return given

    def _access(self, states: StateAccess) -> tuple[Tensor, ...]:
        variables = {variable.name: variable for variable in self._request.query_state()}
        match states:
            case ReadStates(names):
                return tuple(_state(variables[name]) for name in names or self._spec.states)
            case WriteStates(values):
                for name, tensor in values:
                    self._write(variables[name], to_runtime(tensor))
            case ResetStates(names):
                own = [BEGUN] if BEGUN in variables else []
                for name in (*(names or self._spec.states), *own):
                    self._reset(variables[name])
        return ()

    def _write(self, variable: Any, tensor: ov.Tensor) -> None:
        variable.state = tensor

    def _reset(self, variable: Any) -> None:
        variable.reset()

    def _may_fail(self, inputs: Sequence[Tensor]) -> bool:
        """Tell whether inputs of the same shapes have failed lately.

        Raises:
            ServingError: INFERENCE_FAILED if these very inputs have, and no states of a caller can make a difference.
        """
        known = self._graphs.failures.like(inputs)
        if known is not None and not self._keeps_states and known.is_of(inputs):
            raise ServingError(Code.INFERENCE_FAILED, known.message)
        return known is not None

    def _run_apart(
        self, graph: Graph, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms
    ) -> tuple[Tensor, ...]:
        """Run an inference that is likely to fail in a graph of its own, which no other uses before or after it."""
        try:
            return self._run_first(graph, inputs, outputs, transforms)
        finally:
            translate(Code.INFERENCE_FAILED, lambda: self._move(self._graphs.current))

    def _run_first(
        self, graph: Graph, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms
    ) -> tuple[Tensor, ...]:
        """Run as the first inference in a graph. A failure there is this inference's own, and is remembered."""
        try:
            self._move(graph)
            given = self._run(inputs, outputs, transforms)
        except OPENVINO_ERRORS as error:
            failure = translated(Code.INFERENCE_FAILED, error)
            self._graphs.failures.add(inputs, failure.message)
            raise failure from error
        self._graphs.failures.forget(inputs)
        return given

    def _run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms) -> tuple[Tensor, ...]:
        views = list(map(to_runtime, inputs, self._prefixes, self._are_texts))
        try:
            for index, view in enumerate(views):
                self._request.set_input_tensor(index, view)
            if self._resets_states:
                # The slot has served other callers: none may see the states that another left behind.
                self._request.reset_state()
            return self._infer(outputs, transforms)
        finally:
            for index, own in enumerate(self._own_inputs):
                self._request.set_input_tensor(index, own)

    def _infer(self, outputs: Sequence[int], transforms: Transforms) -> tuple[Tensor, ...]:
        """Run the request on the inputs it has."""
        self._compute()
        if not transforms:
            return tuple([self._output(index, None) for index in outputs])
        return tuple([self._output(index, transform) for index, transform in zip(outputs, transforms, strict=True)])

    def _compute(self) -> None:
        running = self._graph.running
        running.add(self._request)
        try:
            # A completion callback would miss failures and cancels, and infer() those of shapes where a stream has a
            # single thread, whose next inferences are then another caller's; wait() sees them all.
            self._request.start_async()
            self._request.wait()
        except OPENVINO_ERRORS:
            # Before the request leaves `running`: then other slots cannot take the graph for one without a failure.
            self._graph.is_spoilt = self._graphs.can_be_spoilt
            raise
        finally:
            running.discard(self._request)

    def _output(self, index: int, transform: Transform | None) -> Tensor:
        tensor, element_type = self._request.get_output_tensor(index), self._spec.outputs[index].element_type
        return from_runtime(tensor, element_type) if transform is None else transform(view_of(tensor, element_type))


def _state(variable: Any) -> Tensor:
    tensor = variable.state
    return from_runtime(tensor, BY_NAME[tensor.element_type.get_type_name()])


def _own_input(request: ov.InferRequest, index: int) -> ov.Tensor:
    """Give a tensor that an input can always be set back to. OpenVINO's own does not fit where a shape is bounded."""
    port = request.model_inputs[index]
    if port.partial_shape.is_static:
        return request.get_input_tensor(index)
    return ov.Tensor(port.element_type, port.partial_shape.get_min_shape())
