"""mosec: tensors as bare bytes over HTTP, workers in processes of their own behind a front in Rust."""

from __future__ import annotations

import sys

import numpy as np
from mosec import Server, Worker
from served import HOST, PROCESSES, Array, Model, served

MOST_ROWS = 64


class OpenVino(Worker):
    resp_mime_type = "application/octet-stream"

    def __init__(self) -> None:
        super().__init__()
        self._served = served()
        self._model = Model(self._served, PROCESSES)

    def deserialize(self, data: bytes) -> Array:
        return np.frombuffer(data, self._served.dtype).reshape(1, *self._served.shape)

    def serialize(self, data: Array) -> bytes:
        return data.tobytes()

    def forward(self, data: Array | list[Array]) -> Array | list[Array]:
        if isinstance(data, list):
            rows = self._model.infer(np.concatenate(data))
            return list(rows[:, np.newaxis])
        return self._model.infer(data)


if __name__ == "__main__":
    what = served()
    sys.argv += ["--address", HOST, "--port", str(what.http_port), "--timeout", "60000", "--log-level", "warning"]
    server = Server()
    # With a delay of 0 ms it would not gather rows at all; 1 ms is the smallest delay that it takes.
    server.append_worker(OpenVino, num=PROCESSES, max_batch_size=MOST_ROWS if what.is_batched else 1, max_wait_time=1)
    server.run()
