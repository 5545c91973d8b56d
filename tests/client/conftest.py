"""Models of a fake server: each test ends the executions itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import inferwire
from inferwire.graph.described import PortDescription
from inferwire.transport.descriptions import ModelDescription
from inferwire.transport.executions import Timings
from inferwire.transport.fake_transport import FakeExecution, FakeOutput, FakeTransport
from inferwire_proto.element_types import BY_NAME


def port(name: str, element_type: inferwire.Type, shape: list[Any], kind: str) -> PortDescription:
    return PortDescription(frozenset({name}), element_type, inferwire.PartialShape(shape), name, kind, name)


def describe(inputs: dict[str, list[Any]], output: list[Any]) -> ModelDescription:
    return ModelDescription(
        name="double",
        version="1",
        inputs=tuple(port(name, inferwire.Type.f32, shape, "Parameter") for name, shape in inputs.items()),
        outputs=(port("out", inferwire.Type.f32, output, "Result"),),
        states=(),
        signature=7,
        optimal_number_of_infer_requests=2,
        properties={"NETWORK_NAME": "double", "INFERENCE_PRECISION_HINT": BY_NAME["f32"]},
    )


def double(execution: FakeExecution) -> None:
    """End an execution with its first input, doubled."""
    spec = execution.header.inputs[0]
    array = np.frombuffer(execution.inputs[0], np.float32) * 2
    value = FakeOutput(BY_NAME["f32"], spec.shape, array.tobytes())
    execution.finish(value, timings=Timings(1.0, 2.0, 4.0, 8.0))


@pytest.fixture(scope="session")
def description() -> ModelDescription:
    """A model that doubles a [1,3] of f32."""
    return describe({"data": [1, 3]}, [1, 3])


@pytest.fixture
def transport(description: ModelDescription) -> FakeTransport:
    """A server with that model, which answers when told to."""
    return FakeTransport(description)


@pytest.fixture
def compiled(transport: FakeTransport) -> inferwire.CompiledModel:
    return inferwire.Core(transport=transport).served_model("double")


@pytest.fixture
def request_(compiled: inferwire.CompiledModel) -> inferwire.InferRequest:
    return compiled.create_infer_request()


@pytest.fixture(scope="session")
def finish() -> Callable[[FakeExecution], None]:
    return double
