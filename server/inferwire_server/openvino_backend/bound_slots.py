"""The slot of one bound caller: it keeps the caller's states, even when another graph takes the place of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, TypeAlias

import openvino as ov
import structlog

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.specs import ModelSpec
from inferwire_server.core.states import StateAccess
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.attention_states import check_rows
from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS, translate
from inferwire_server.openvino_backend.graphs import Graph, Graphs
from inferwire_server.openvino_backend.slots import OpenVinoSlot

log = structlog.stdlib.get_logger()

_States: TypeAlias = Mapping[str, ov.Tensor]
"""Copies of the states that something was written to, by their names."""

MAX_COPIED_STATE_BYTES = 1 << 18
"""The most bytes of states that are copied before each run that may have to be repeated. Copying so much takes half a
millisecond if OpenVINO has to unpack them, as the keys and values of a language model, and far less if not."""


class OpenVinoBoundSlot(OpenVinoSlot):
    """One `InferRequest` with its caller's states. An inference that fails leaves them as they are.

    A state that nothing was written to since it began does so in another request by itself: what it begins with may be
    computed of the next inputs.

    When a new graph was made, an idle slot is moved there: otherwise it would keep the graph before it in memory.
    """

    def __init__(self, graphs: Graphs, spec: ModelSpec) -> None:
        self._lock = Lock()
        self._is_small = True
        self._before: _States | None = None
        self._unwritten = set(spec.states)
        self._touched: dict[str, tuple[int, ...] | None] = {}
        self._was_reset = False
        super().__init__(graphs, spec, keeps_states=True)
        graphs.add_holder(self)

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run an inference on its caller's states.

        Raises:
            ServingError: INVALID_INPUT if the caller has left attention with keys and values that do not go together.
        """
        with self._lock:
            self._check_touched()
            if self._was_reset:
                # As of OpenVINO 2026.4 attention over quantized states takes their old scales for those of more rows.
                translate(Code.INFERENCE_FAILED, lambda: self._move(self._graph))
            self._before = self._copied_if_small()
            try:
                return super().run(inputs, outputs, transforms)
            except ServingError as error:
                self._restore()
                if error.code is Code.INFERENCE_FAILED and not self._may_run_again():
                    raise error.copy(f"{error.message}\nthe states may have changed: reset or write them") from error
                raise
            finally:
                self._before = None

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset states, and give copies of what was read."""
        with self._lock:
            return super().access(states)

    def move_to_current(self) -> None:
        """Move to the current graph. A slot that is running an inference does so before its next one instead."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._move(self._graphs.current)
        except OPENVINO_ERRORS as error:
            log.warning("a caller's states stay where an inference has failed", reason=str(error).strip())
        finally:
            self._lock.release()

    def _run_first(
        self, graph: Graph, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms
    ) -> tuple[Tensor, ...]:
        given = super()._run_first(graph, inputs, outputs, transforms)
        self._before = None
        return given

    def _compute(self) -> None:
        super()._compute()
        self._unwritten.clear()

    def _write(self, variable: Any, tensor: ov.Tensor) -> None:
        super()._write(variable, tensor)
        self._unwritten.discard(variable.name)
        self._touched[variable.name] = tuple(tensor.shape)

    def _reset(self, variable: Any) -> None:
        super()._reset(variable)
        self._unwritten.add(variable.name)
        self._touched[variable.name] = None
        self._was_reset = self._is_small = True

    def _check_touched(self) -> None:
        """Check the states that were written or reset since the last inference, which left them as they go together."""
        if not self._touched:
            return
        for keys, values in self._graphs.attention_states:
            if keys in self._touched or values in self._touched:
                check_rows(self._spec.name, (keys, values), self._shape(keys), self._shape(values))
        self._touched.clear()

    def _shape(self, name: str) -> tuple[int, ...] | None:
        if name in self._touched:
            return self._touched[name]
        return next((tuple(each.state.shape) for each in self._written() if each.name == name), None)

    def _may_run_again(self) -> bool:
        """Tell whether the states are, or will be, those from before it: attention adds to its own at once."""
        return self._before is not None or not _attends(self._graph.compiled)

    def _restore(self) -> None:
        """Have the states from before the inference, if they were copied."""
        before = self._before
        if before is not None:
            translate(Code.INFERENCE_FAILED, lambda: self._use_with(self._graph, before))

    def _move(self, graph: Graph) -> None:
        self._use_with(graph, self._states() if self._before is None else self._before)

    def _go_back(self) -> None:
        if self._before is None:
            raise ServingError(
                Code.INFERENCE_FAILED,
                "another caller's inference has failed beside this one, and OpenVINO may have mixed up their shapes: "
                "neither the outputs nor the states of this one can be trusted; reset or write the states",
            )
        self._use_with(self._graphs.good(), self._before)

    def _copied_if_small(self) -> _States | None:
        """Give copies of the states; None if they are large, or if nothing can spoil the run."""
        if not self._is_small or not self._graphs.can_be_spoilt:
            return None
        states = copied_up_to(MAX_COPIED_STATE_BYTES, self._written())
        self._is_small = states is not None
        return states

    def _states(self) -> _States:
        return {each.name: each.state for each in self._written()}

    def _written(self) -> list[Any]:
        return [each for each in self._request.query_state() if each.name not in self._unwritten]

    def _use_with(self, graph: Graph, states: _States) -> None:
        """Run in this graph from now on, with these states. If it refuses them, the slot stays as it is."""
        request = graph.create_request()
        for variable in request.query_state():
            if variable.name in states:
                variable.state = states[variable.name]
        self._use(graph, request)
        self._unwritten = set(self._spec.states) - set(states)
        self._was_reset = False


def copied_up_to(most: int, variables: Sequence[Any]) -> _States | None:
    """Give copies of states; None, and copy no more of them, once they have more bytes than these."""
    copied, size = dict[str, ov.Tensor](), 0
    for each in variables:
        copied[each.name] = state = each.state
        size += state.byte_size
        if size > most:
            return None
    return copied


def _attends(compiled: ov.CompiledModel) -> bool:
    """Whether the device keeps keys and values in attention's own way, which is no other operation's."""
    layers: list[Any] = compiled.get_runtime_model().get_ops()
    return any(layer.get_rt_info()["layerType"].value == "ScaledDotProductAttention" for layer in layers)
