"""PyTriton: a Python function behind Triton, in one process that Triton talks to.

It gets all waiting requests in one call, since each call costs milliseconds; it runs each request by itself if rows
may not be gathered.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig
from served import HOST, PROCESSES, Array, Model, served

MOST_ROWS = 64

LOCKS = """
import threading
from multiprocessing import resource_tracker

tracker = resource_tracker._resource_tracker
if not hasattr(tracker._lock, "_recursion_count"):
    tracker._lock = threading._PyRLock()
"""
"""Triton's own interpreter is an older patch release than the standard library may be, whose locks lack a method."""


def main() -> None:
    """Serve until the end."""
    (Path(sysconfig.get_path("purelib")) / "sitecustomize.py").write_text(LOCKS)
    what = served()
    model = Model(what)

    @batch
    def infer_gathered(**inputs: Array) -> list[Array]:
        return [model.infer(inputs[what.input])]

    def infer_each(requests: list[dict[str, Array]]) -> list[dict[str, Array]]:
        return [{what.output: model.infer(request[what.input])} for request in requests]

    config = TritonConfig(
        http_address=HOST, http_port=what.http_port, grpc_address=HOST, grpc_port=what.grpc_port, allow_metrics=False
    )
    most_rows = MOST_ROWS if model.is_quick else 1
    with Triton(config=config) as triton:
        triton.bind(
            model_name=what.name,
            infer_func=infer_gathered if what.is_batched else [infer_each] * (1 if model.is_quick else PROCESSES),
            inputs=[Tensor(name=what.input, dtype=np.dtype(what.dtype), shape=tuple(what.shape))],
            outputs=[Tensor(name=what.output, dtype=np.float32, shape=(what.classes,))],
            config=ModelConfig(batching=True, max_batch_size=most_rows, batcher=DynamicBatcher()),
            strict=False,
        )
        triton.serve()


if __name__ == "__main__":
    main()
