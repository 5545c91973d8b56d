"""What every peer's server runs: the model by openvino, and where to listen. Needs only openvino and numpy."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import numpy as np
import openvino as ov

SERVED = "BENCH_SERVED"
"""The variable that holds the description, in JSON."""

HOST = "127.0.0.1"
QUICK_S = 0.001
"""A model that takes less time runs on the calling thread, since handing it to another takes longer."""

PROCESSES = os.cpu_count() or 1

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Served:
    """The model to serve.

    Attributes:
        path: The model's file.
        name: The name to serve it by.
        input: The name of its input.
        output: The name of its output.
        dtype: Of the input, numpy's name.
        shape: Of the input, for one row.
        classes: How long a row of the output is.
        http_port: Where to listen for HTTP.
        grpc_port: Where to listen for gRPC.
        is_batched: Whether to gather rows of callers.
    """

    path: str
    name: str
    input: str
    output: str
    dtype: str
    shape: list[int]
    classes: int
    http_port: int
    grpc_port: int
    is_batched: bool


def served() -> Served:
    """Read what is to be served from the environment."""
    return Served(**json.loads(os.environ[SERVED]))


class Model:
    """The compiled model and its requests, for a server of one process or one of several."""

    def __init__(self, served: Served, processes: int = 1) -> None:
        hints: dict[str, object] = {"PERFORMANCE_HINT": "THROUGHPUT"}
        if processes > 1:
            # If processes pin their threads, all pin them to the same core.
            hints = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "ENABLE_CPU_PINNING": False}
        core: Any = ov.Core()
        self._compiled: Any = core.compile_model(served.path, "CPU", hints)
        self._free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self._compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")):
            self._free.put(self._compiled.create_infer_request())
        self.is_quick = self._takes(np.zeros([1, *served.shape], served.dtype)) < QUICK_S

    def infer(self, rows: Array) -> Array:
        """Run rows; wait while all requests are busy."""
        request = self._free.get()
        try:
            request.infer([rows], share_inputs=True)
            return request.get_output_tensor(0).data.copy()
        finally:
            self._free.put(request)

    async def infer_async(self, rows: Array) -> Array:
        """Run rows without holding the loop up for long."""
        if self.is_quick:
            return self.infer(rows)
        return await asyncio.get_running_loop().run_in_executor(None, self.infer, rows)

    def _takes(self, rows: Array) -> float:
        for _ in range(5):
            started = perf_counter()
            self.infer(rows)
        return perf_counter() - started
