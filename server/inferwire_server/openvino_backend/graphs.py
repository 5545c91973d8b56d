"""The compiled graph that a model runs in, and its replacement once an inference in it has failed.

OpenVINO's CPU device prepares a node of a dynamic model again only if the node's inputs have other shapes than those it
last computed with. An inference that fails half way leaves its shapes behind in some nodes. The next inferences then
fail as well, with the same message, or get outputs of the wrong shape, until one comes whose shapes happen to differ.
A graph in which nothing has been computed yet has no shapes to mistake. An inference that is cancelled half way leaves
as much behind: so none is interrupted in such a model, which costs less than a new graph after each cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol, TypeVar
from weakref import WeakSet

import openvino as ov
import structlog

from inferwire_server.openvino_backend.attention_states import Pairs
from inferwire_server.openvino_backend.empty_inputs import EmptyInputs
from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS
from inferwire_server.openvino_backend.failures import Failures

T = TypeVar("T")

log = structlog.stdlib.get_logger()


@dataclass(eq=False, slots=True)
class Graph:
    """A compiled graph that a model runs in.

    Attributes:
        is_spoilt: Whether an inference is known to have failed in it: what else is computed there may be wrong.
        running: The requests that run in it, each from before its start until it is known whether it has failed.
    """

    compiled: ov.CompiledModel
    is_spoilt: bool = False
    running: set[ov.InferRequest] = field(default_factory=set[ov.InferRequest])

    def __del__(self) -> None:
        """Free what its inferences have computed in.

        As of OpenVINO 2026.4 the CPU plugin keeps a graph in which attention has states, also when nobody has it.
        """
        self.compiled.release_memory()

    def create_request(self) -> ov.InferRequest:
        """Make a request that runs in it."""
        return self.compiled.create_infer_request()

    def is_trusted(self) -> bool:
        """Whether no inference has failed in it, not even one whose own thread has not noticed the failure yet."""
        for request in tuple(self.running):
            try:
                request.wait_for(0)
            except OPENVINO_ERRORS:
                return False
        return not self.is_spoilt


class GraphHolder(Protocol):
    """Something that keeps a graph in memory while nothing runs in it."""

    def move_to_current(self) -> None:
        """Move to the current graph, if that is possible now."""
        ...


class Graphs:
    """The graphs of a model: new inferences run in the current one. `renew` makes another like the one it is given.

    Attributes:
        current: The graph that new inferences run in.
        failures: The inferences that failed lately as the first in their graph.
        renewing: Held by the thread that makes another graph, until the inference that the graph is for has run.
        can_be_spoilt: Whether an inference that ends half way leaves anything behind in its graph.
        empty_inputs: Refuses inputs without elements that the model cannot take; None if it takes none, or its graph is
            not known.
        attention_states: The keys and values that attention keeps in states, as far as they are known.
        text_inputs: The positions of the inputs that have to be UTF-8, as far as they are known.
    """

    def __init__(
        self,
        compiled: ov.CompiledModel,
        renew: Callable[[ov.CompiledModel], ov.CompiledModel],
        empty_inputs: EmptyInputs | None = None,
        attention_states: Pairs = (),
        text_inputs: frozenset[int] = frozenset(),
    ) -> None:
        self.current = Graph(compiled)
        self.empty_inputs = empty_inputs
        self.attention_states = attention_states
        self.text_inputs = text_inputs
        self.failures = Failures()
        self._renew = renew
        self.renewing = Lock()
        self._holders: WeakSet[GraphHolder] = WeakSet()
        self._holders_lock = Lock()
        ports = (*compiled.inputs, *compiled.outputs)
        self.can_be_spoilt = any(port.get_partial_shape().is_dynamic for port in ports)

    @property
    def compiled(self) -> ov.CompiledModel:
        """The compiled model of the current graph."""
        return self.current.compiled

    def export(self) -> bytes:
        """Give the model as a blob that can be loaded again. One from OpenVINO's cache is compiled anew for that."""
        compiled = self.compiled
        if compiled.get_property("LOADED_FROM_CACHE"):
            with self.renewing:
                compiled = self._renew(compiled)
        return compiled.export_model().getvalue()

    def add_holder(self, holder: GraphHolder) -> None:
        """Have a holder move whenever there is a new graph. Only a weak reference to it is kept."""
        with self._holders_lock:
            self._holders.add(holder)

    def good(self) -> Graph:
        """Give the current graph. If an inference has failed in it, wait until another has taken its place."""
        if self.current.is_spoilt:
            with self.renewing:
                return self.current
        return self.current

    def mended(self) -> Graph:
        """Give the current graph. If an inference has failed in it, put another in its place first, if possible."""
        if self.current.is_spoilt:
            with self.renewing:
                self.current = self._renewed(self.current) or self.current
                self.current.is_spoilt = False
        return self.current

    def run_anew(self, run: Callable[[Graph], T], failed: Graph, failure: Exception) -> T:
        """Run a failed inference once more, as the first in a new graph, which is the current one from then on.

        Raises:
            Exception: What `run` raises this time; the failure, if graphs cannot be spoilt or no new one can be made.
        """
        if not self.can_be_spoilt:
            raise failure
        # Slots that compute in the graph meanwhile see this when they have finished, and run again.
        failed.is_spoilt = True
        with self.renewing:
            renewed = None
            try:
                renewed = self._renewed(failed)
            finally:
                # If no other graph could be made, no slot is to wait for one.
                failed.is_spoilt = renewed is not None
            if renewed is None:
                raise failure
            try:
                return run(renewed)
            finally:
                # Also after a failure: the first inference in a graph leaves nothing that later shapes could match.
                renewed.is_spoilt = False
                self.current = renewed
                with self._holders_lock:
                    holders = tuple(self._holders)
                for holder in holders:
                    holder.move_to_current()
                # Slots keep the graph until their next inference. Where others still run in it, that is when it is
                # freed.
                with suppress(*OPENVINO_ERRORS):
                    failed.compiled.release_memory()

    def another(self) -> Graph | None:
        """Make a graph for an inference that is likely to fail, so that it spoils no other; None if none can be made.

        The caller has to hold `renewing` until the inference has run, so that there is one such graph at a time: it may
        take as much memory as everything else.
        """
        return self._renewed(self.current)

    def _renewed(self, graph: Graph) -> Graph | None:
        try:
            return Graph(self._renew(graph.compiled))
        except (*OPENVINO_ERRORS, OSError, MemoryError) as error:
            log.warning("a failed inference may fail others until a reload", reason=str(error).strip())
            return None
