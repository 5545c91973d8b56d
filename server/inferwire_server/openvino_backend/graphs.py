"""The compiled graph that a model runs in, and its replacement once an inference in it has failed.

OpenVINO's CPU device looks at a node of a dynamic model again only where its inputs have other shapes than it last
computed with. An inference that fails half way leaves nodes with shapes of its own behind: the next callers' inferences
then fail as well, with that one's message, or get outputs of its shape, until somebody's shapes happen to differ. A
graph in which nothing has been computed mistakes nothing. One that is cancelled half way leaves as much: so none is
interrupted there, which costs less than a new graph for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol, TypeVar
from weakref import WeakSet

import openvino as ov
import structlog

from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS
from inferwire_server.openvino_backend.failures import Failures

T = TypeVar("T")

log = structlog.stdlib.get_logger()


@dataclass(eq=False, slots=True)
class Graph:
    """What a model runs in.

    Attributes:
        is_spoilt: Whether an inference is known to have failed in it: what else is computed there may be wrong.
        running: The requests that run in it, each from before its start until it is known whether it has failed.
    """

    compiled: ov.CompiledModel
    is_spoilt: bool = False
    running: set[ov.InferRequest] = field(default_factory=set[ov.InferRequest])

    def create_request(self) -> ov.InferRequest:
        """Make a request that runs in it."""
        return self.compiled.create_infer_request()

    def is_trusted(self) -> bool:
        """Whether no inference has failed in it, one of those included whose thread has not heard of it yet."""
        for request in tuple(self.running):
            try:
                request.wait_for(0)
            except OPENVINO_ERRORS:
                return False
        return not self.is_spoilt


class GraphHolder(Protocol):
    """Something that keeps a graph in memory while nothing runs in it."""

    def move_to_current(self) -> None:
        """Go to the graph that runs what comes, if that can be now."""
        ...


class Graphs:
    """The graphs of a model, of which one at a time runs what comes. `renew` makes one more, like the one it is given.

    Attributes:
        current: The one that runs what comes.
        failures: What failed lately in a graph that nobody else had used.
        renewing: Held by whoever makes another graph, until what it was made for has run.
        can_be_spoilt: Whether an inference that ends half way leaves anything behind.
    """

    def __init__(self, compiled: ov.CompiledModel, renew: Callable[[ov.CompiledModel], ov.CompiledModel]) -> None:
        self.current = Graph(compiled)
        self.failures = Failures()
        self._renew = renew
        self.renewing = Lock()
        self._holders: WeakSet[GraphHolder] = WeakSet()
        self._holders_lock = Lock()
        ports = (*compiled.inputs, *compiled.outputs)
        self.can_be_spoilt = any(port.get_partial_shape().is_dynamic for port in ports)

    @property
    def compiled(self) -> ov.CompiledModel:
        """The compiled model that runs what comes."""
        return self.current.compiled

    def export(self) -> bytes:
        """Give the model as a blob that can be loaded again: one from OpenVINO's cache is compiled anew for that."""
        compiled = self.compiled
        if compiled.get_property("LOADED_FROM_CACHE"):
            with self.renewing:
                compiled = self._renew(compiled)
        return compiled.export_model().getvalue()

    def add_holder(self, holder: GraphHolder) -> None:
        """Have it move whenever there is a new graph, for as long as anybody else has it."""
        with self._holders_lock:
            self._holders.add(holder)

    def good(self) -> Graph:
        """Give the graph that runs what comes, once there is another where an inference has failed in it."""
        if self.current.is_spoilt:
            with self.renewing:
                return self.current
        return self.current

    def mended(self) -> Graph:
        """Give the graph that runs what comes; where an inference has failed in it, make another first, if possible."""
        if self.current.is_spoilt:
            with self.renewing:
                self.current = self._renewed(self.current) or self.current
                self.current.is_spoilt = False
        return self.current

    def run_anew(self, run: Callable[[Graph], T], failed: Graph, failure: Exception) -> T:
        """Run what has failed once more, in a new graph that nobody else has used; from then on it is everybody's.

        Raises:
            Exception: What `run` raises this time; the failure, where graphs cannot be spoilt or made anew.
        """
        if not self.can_be_spoilt:
            raise failure
        # Those who compute in it meanwhile see that as they end.
        failed.is_spoilt = True
        with self.renewing:
            renewed = None
            try:
                renewed = self._renewed(failed)
            finally:
                # Without another, nobody is to wait for one.
                failed.is_spoilt = renewed is not None
            if renewed is None:
                raise failure
            try:
                return run(renewed)
            finally:
                # One that fails in it as the first leaves nothing that another's shapes could be taken for.
                renewed.is_spoilt = False
                self.current = renewed
                with self._holders_lock:
                    holders = tuple(self._holders)
                for holder in holders:
                    holder.move_to_current()

    def another(self) -> Graph | None:
        """Make a graph for what may well fail, so that nobody suffers from it; None where there can be none.

        For whoever holds `renewing`, and until it has run: a graph may take as much memory as all else.
        """
        return self._renewed(self.current)

    def _renewed(self, graph: Graph) -> Graph | None:
        try:
            return Graph(self._renew(graph.compiled))
        except (*OPENVINO_ERRORS, OSError, MemoryError) as error:
            log.warning("a failed inference may fail others until a reload", reason=str(error).strip())
            return None
