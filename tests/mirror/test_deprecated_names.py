"""What openvino was called until 2023 works and says what it is called now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import inferwire as ov

X: NDArray[np.float32] = np.array([[1, -2, 3]], np.float32)


@pytest.fixture
def compiled(models: Any, server_address: str) -> ov.CompiledModel:
    return ov.Core(server_address).compile_model(models["relu"], "CPU")


def shared(tensor: ov.Tensor) -> bool:
    return np.shares_memory(tensor.data, X)


CALLS: dict[str, Callable[[ov.CompiledModel, ov.InferRequest], object]] = {
    "infer": lambda compiled, request: request.infer(X, shared_memory=True),
    "start_async": lambda compiled, request: (request.start_async(X, shared_memory=True), request.wait()),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_shared_memory_shares_inputs(compiled: ov.CompiledModel, call: Callable[..., object]) -> None:
    request = compiled.create_infer_request()
    with pytest.warns(DeprecationWarning, match="shared_memory is deprecated; use share_inputs instead") as caught:
        call(compiled, request)
    assert shared(request.get_input_tensor())
    assert request.results[0].tolist() == [[1, 0, 3]]
    assert [warning.filename for warning in caught] == [__file__]


def test_a_call_shares_inputs_unless_told_otherwise(compiled: ov.CompiledModel) -> None:
    with pytest.warns(DeprecationWarning, match="use share_inputs"):
        assert compiled(X, shared_memory=False)[0].tolist() == [[1, 0, 3]]


def test_a_queue_shares_inputs(compiled: ov.CompiledModel) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    with pytest.warns(DeprecationWarning, match="use share_inputs") as caught:
        queue.start_async(X, shared_memory=True)
    queue.wait_all()
    assert shared(queue[0].get_input_tensor())
    assert [warning.filename for warning in caught] == [__file__]


def test_inputs_and_outputs_are_tensors(compiled: ov.CompiledModel) -> None:
    request = compiled.create_infer_request()
    request.infer(X)
    with pytest.warns(DeprecationWarning, match="InferRequest.inputs is deprecated; use input_tensors") as caught:
        assert request.inputs[0].data.tolist() == X.tolist()
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(DeprecationWarning, match="InferRequest.outputs is deprecated; use output_tensors") as caught:
        assert request.outputs[0].data.tolist() == [[1, 0, 3]]
    assert [warning.filename for warning in caught] == [__file__]
