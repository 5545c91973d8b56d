"""PyTriton: a Python function behind Triton, in one process that Triton talks to."""

from __future__ import annotations

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig
from served import HOST, PROCESSES, Array, Model, served

MOST_ROWS = 64

if __name__ == "__main__":
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
    leading = () if what.is_batched else (1,)
    with Triton(config=config) as triton:
        triton.bind(
            model_name=what.name,
            infer_func=infer_gathered if what.is_batched else [infer_each] * (1 if model.is_quick else PROCESSES),
            inputs=[Tensor(name=what.input, dtype=np.dtype(what.dtype), shape=(*leading, *what.shape))],
            outputs=[Tensor(name=what.output, dtype=np.float32, shape=(*leading, what.classes))],
            config=ModelConfig(
                batching=what.is_batched, max_batch_size=MOST_ROWS if what.is_batched else 1, batcher=DynamicBatcher()
            ),
            strict=False,
        )
        triton.serve()
