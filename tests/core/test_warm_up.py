"""The zeros a model runs before it takes jobs."""

from __future__ import annotations

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec, Shape
from inferwire_server.core.tensors import Tensor
from inferwire_server.core.warm_up import zeros
from inferwire_server.errors import ServingError

TWO = (Dimension(2, 2), Dimension(3, 3))
ROWS = (Dimension(0, None), Dimension(3, 3))


def a_model(**inputs: tuple[str, Shape]) -> ModelSpec:
    ports = tuple(
        PortSpec(frozenset({name}), name, BY_NAME[element_type], shape, name, "Parameter")
        for name, (element_type, shape) in inputs.items()
    )
    return ModelSpec("m", ports, ())


def test_inputs_with_one_shape_need_none() -> None:
    spec = a_model(a=("f32", TWO), b=("i4", TWO), c=("string", TWO), d=("u8", ()))
    assert zeros(spec, {}) == (
        Tensor(BY_NAME["f32"], (2, 3), bytes(24)),
        Tensor(BY_NAME["i4"], (2, 3), bytes(3)),
        Tensor(BY_NAME["string"], (2, 3), bytes(24)),
        Tensor(BY_NAME["u8"], (), bytes(1)),
    )


def test_shapes_are_given_by_name() -> None:
    spec = a_model(a=("f32", ROWS), b=("f32", None), c=("f32", ()))
    shapes = [tensor.shape for tensor in zeros(spec, {"b": (1, 1, 2), "a": (5, 3)})]
    assert shapes == [(5, 3), (1, 1, 2), ()]


@pytest.mark.parametrize(
    ("shape", "given", "sentence"),
    [
        (ROWS, {}, "input 'a' takes shapes [?,3], expected one of them to warm up with"),
        (None, {}, "input 'a' takes shapes [...], expected one of them to warm up with"),
        (ROWS, {"a": (1, 4)}, "input 'a' of model 'm' has shape [1,4], expected [?,3]"),
        (TWO, {"b": (2, 3)}, "input 'b' of model 'm' is not known, expected one of 'a'"),
    ],
)
def test_what_cannot_be_run_is_refused(shape: Shape, given: dict[str, tuple[int, ...]], sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        zeros(a_model(a=("f32", shape)), given)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, sentence)
