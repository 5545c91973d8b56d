"""BentoML: tensors in base64 within JSON; it takes no pickled arrays from callers, and JSON numbers take longer.

Each of its workers is a whole server.
"""

from __future__ import annotations

import base64
import os
import sys

import bentoml
import numpy as np
from served import HOST, PROCESSES, Model, served


@bentoml.service(
    workers=PROCESSES,
    traffic={"timeout": 60, "max_concurrency": 1024},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
class OpenVino:
    def __init__(self) -> None:
        self._served = served()
        self._model = Model(self._served, PROCESSES)

    @bentoml.api(route="/predict")
    async def predict(self, data: str) -> str:
        rows = np.frombuffer(base64.b64decode(data), self._served.dtype).reshape(1, *self._served.shape)
        return base64.b64encode(await self._model.infer_async(rows)).decode()


if __name__ == "__main__":
    os.environ["BENTOML_DO_NOT_TRACK"] = "True"
    command = [sys.executable, "-m", "bentoml", "serve", "server:OpenVino"]
    os.execv(sys.executable, [*command, "--host", HOST, "--port", str(served().http_port)])
