"""LitServe: tensors in base64 within JSON, the only bytes it takes; workers in processes of their own."""

import base64

import litserve
import numpy as np
from fastapi import Request
from served import HOST, PROCESSES, Array, Model, served


class OpenVino(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self._served = served()
        self._model = Model(self._served, PROCESSES)

    def decode_request(self, request: Request) -> Array:  # LitServe has parsed it to JSON by then
        data = base64.b64decode(request["data"])
        return np.frombuffer(data, self._served.dtype).reshape(1, *self._served.shape)

    def predict(self, x: Array) -> Array:
        return self._model.infer(x)

    def encode_response(self, output: Array) -> dict[str, str]:
        return {"data": base64.b64encode(output).decode()}


if __name__ == "__main__":
    server = litserve.LitServer(
        OpenVino(), accelerator="cpu", workers_per_device=PROCESSES, fast_queue=True, timeout=False
    )
    server.run(host=HOST, port=served().http_port, num_api_servers=1, log_level="warning", generate_client_file=False)
