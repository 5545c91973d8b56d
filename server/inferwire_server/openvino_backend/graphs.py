"""A compiled model, and another like it once an inference in it has failed.

OpenVINO's CPU device looks at a node of a dynamic model again only where its inputs have other shapes than it last
computed with. An inference that fails half way leaves nodes with shapes of its own behind: the next callers' inferences
then fail as well, with that one's message, until somebody's shapes happen to differ. A graph in which nothing has been
computed mistakes nothing. One that is cancelled half way leaves as much, and the next callers get wrong outputs, of
another's shape: so it is not, which is cheaper than a graph anew for each.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import openvino as ov
import structlog

from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS

T = TypeVar("T")

log = structlog.stdlib.get_logger()


class Graphs:
    """The graphs of a model, of which one at a time runs what comes. `renew` makes one more, like the one it is given.

    Attributes:
        compiled: The one that runs what comes.
        can_be_spoilt: Whether an inference that ends half way leaves anything behind.
    """

    def __init__(self, compiled: ov.CompiledModel, renew: Callable[[ov.CompiledModel], ov.CompiledModel]) -> None:
        self.compiled = compiled
        self._renew = renew
        self._renewing = Lock()
        ports = (*compiled.inputs, *compiled.outputs)
        self.can_be_spoilt = any(port.get_partial_shape().is_dynamic for port in ports)

    def run_anew(self, run: Callable[[ov.CompiledModel], T], failure: Exception) -> T:
        """Run what has failed once more, in a new graph that nobody else has used; from then on it is everybody's.

        Raises:
            Exception: What `run` raises this time; the failure, where graphs cannot be spoilt or made anew.
        """
        if not self.can_be_spoilt:
            raise failure
        with self._renewing:
            try:
                renewed = self._renew(self.compiled)
            except (*OPENVINO_ERRORS, OSError, MemoryError) as error:
                log.warning("a failed inference may fail others until a reload", reason=str(error).strip())
                raise failure from None
            try:
                return run(renewed)
            finally:
                self.compiled = renewed
