"""KServe's model server with a predictor of our own."""

from __future__ import annotations

import logging
from typing import Any

import grpc.aio
import uvicorn
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer
from kserve.protocol.rest import server as rest_server
from served import HOST, served
from served import Model as Compiled

AIO_SERVER = grpc.aio.server


class OpenVino(Model):
    def __init__(self) -> None:
        super().__init__(served().name)
        self._model = Compiled(served())
        self._output = served().output
        self.ready = True

    async def predict(
        self, payload: InferRequest, headers: dict[str, str] | None = None, response_headers: Any = None
    ) -> InferResponse:
        rows = await self._model.infer_async(payload.inputs[0].as_numpy())
        output = InferOutput(self._output, list(rows.shape), "FP32")
        output.set_data_from_numpy(rows, binary_data=True)
        return InferResponse(payload.id or "", self.name, [output], requested_outputs=payload.request_outputs)


def local_server(*arguments: Any, **options: Any) -> Any:
    """Listen on this machine alone; it offers no setting for that."""
    server = AIO_SERVER(*arguments, **options)
    listen = server.add_insecure_port
    server.add_insecure_port = lambda address: listen(address.replace("[::]", HOST))
    return server


def local_config(app: Any, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(app, **{**options, "host": HOST, "access_log": False})


if __name__ == "__main__":
    what = served()
    grpc.aio.server = local_server
    rest_server.uvicorn = type("Uvicorn", (), {**vars(uvicorn), "Config": staticmethod(local_config)})
    logging.disable(logging.INFO)
    ModelServer(
        http_port=what.http_port, grpc_port=what.grpc_port, workers=1, enable_grpc=True, enable_latency_logging=False
    ).start([OpenVino()])
