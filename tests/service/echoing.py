"""A model that gives back the row it gets, and inferences on it."""

from __future__ import annotations

from typing import Any

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.service.values import Inference, Inputs, ServedModel, Wanted

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))


def a_model(*, is_open: bool = True) -> FakeModel:
    return FakeModel(echo_spec("m"), gate=Gate(is_open=is_open), optimal_slots=1)


def an_inference(inputs: Inputs = (("x", ROW),), **wanted: Any) -> Inference:
    return Inference(Wanted(ServedModel("m"), **wanted), inputs)
