"""MLServer with a runtime of our own, in one process: its default, a second one, has to pickle each tensor."""

from __future__ import annotations

import asyncio
import os

from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from served import HOST, Model, served


class OpenVino(MLModel):
    async def load(self) -> bool:
        self._model = Model(served())
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = NumpyCodec.decode_input(payload.inputs[0])
        answer = NumpyCodec.encode_output(served().output, await self._model.infer_async(rows))
        return InferenceResponse(model_name=self.name, outputs=[answer])


async def main() -> None:
    what = served()
    settings = Settings(
        debug=False,
        parallel_workers=0,
        host=HOST,
        http_port=what.http_port,
        grpc_port=what.grpc_port,
        grpc_max_message_length=256 * 1024 * 1024,
        metrics_endpoint=None,
        logging_settings={"version": 1, "root": {"level": "ERROR"}},
    )
    server = MLServer(settings)
    await server.start([ModelSettings(name=what.name, implementation=OpenVino)])


if __name__ == "__main__":
    os.environ.setdefault("MLSERVER_MODEL_PARALLEL_WORKERS", "0")
    import uvloop

    uvloop.install()
    asyncio.run(main())
