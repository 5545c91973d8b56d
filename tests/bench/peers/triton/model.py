"""What Triton's Python backend runs, in as many processes as the configuration says."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton_python_backend_utils as triton
from served import PROCESSES, Array, Model, served


class TritonPythonModel:
    def initialize(self, _arguments: dict[str, str]) -> None:
        self._served = served()
        self._model = Model(self._served, PROCESSES)

    def execute(self, requests: list[Any]) -> list[Any]:
        rows = [triton.get_input_tensor_by_name(request, self._served.input).as_numpy() for request in requests]
        if len(rows) == 1 or not self._served.is_batched:
            return [self._response(self._model.infer(each)) for each in rows]
        answers = self._model.infer(np.concatenate(rows))
        ends = np.cumsum([len(each) for each in rows])[:-1]
        return [self._response(answer) for answer in np.split(answers, ends)]

    def _response(self, rows: Array) -> Any:
        return triton.InferenceResponse([triton.Tensor(self._served.output, np.ascontiguousarray(rows))])
