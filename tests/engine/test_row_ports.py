"""Which models have rows to put together, as far as their ports say."""

from __future__ import annotations

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec, Shape
from inferwire_server.engine.row_ports import check_can_be_batched
from inferwire_server.errors import ServingError

ANY = Dimension(0, None)
FOUR = Dimension(4, 4)


def port(name: str, shape: Shape, type_name: str = "f32") -> PortSpec:
    return PortSpec(frozenset({name}), name, BY_NAME[type_name], shape, name, "Parameter")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (ModelSpec("m", (port("x", (ANY,)),), (), ("s",)), "it keeps states ('s'), which belong to one caller"),
        (
            ModelSpec("m", (port("x", (ANY,)),), (), tuple("abcde")),
            "it keeps states ('a', 'b', 'c' and 2 more), which belong to one caller",
        ),
        (ModelSpec("m", (), (port("y", (ANY,)),)), "it has no input"),
        (
            ModelSpec("m", (port("x", (Dimension(1, 1), FOUR)),), ()),
            (
                "input 'x' has shape [1,4], expected a first dimension that admits 1 to 8 rows; "
                "batch = -1 in its inferwire.toml (or batch_size, where OpenVINO Model Server's file has one) frees "
                "it, as Model.reshape does in a program"
            ),
        ),
        (
            ModelSpec("m", (port("x", (Dimension(1, 4), FOUR)),), ()),
            "input 'x' has shape [1..4,4], expected a first dimension that admits 1 to 8 rows",
        ),
        (
            ModelSpec("m", (port("x", (Dimension(2, None),)),), ()),
            "input 'x' has shape [2..], expected a first dimension that admits 1 to 8 rows",
        ),
        (
            ModelSpec("m", (port("x", ()),), ()),
            "input 'x' has shape [], expected a first dimension that admits 1 to 8 rows",
        ),
        (
            ModelSpec("m", (port("x", None),), ()),
            "input 'x' has a shape of unknown rank, expected a first dimension that counts rows",
        ),
        (
            ModelSpec("m", (port("x", (ANY, Dimension(3, 3)), "i4"),), ()),
            "input 'x' has rows of 3 i4, expected rows of whole bytes",
        ),
        (
            ModelSpec("m", (port("x", (ANY,)),), (port("y", (ANY,), "u4"),)),
            "output 'y' has rows of 1 u4, expected rows of whole bytes",
        ),
        (
            ModelSpec("m", (port("x", (ANY,)),), (port("y", (FOUR,)),)),
            "output 'y' has shape [4], expected a first dimension that admits 1 to 8 rows",
        ),
    ],
)
def test_a_model_without_rows_to_put_together_is_refused(spec: ModelSpec, reason: str) -> None:
    with pytest.raises(ServingError) as caught:
        check_can_be_batched(spec, Batching(8))
    assert (caught.value.code, caught.value.message) == (Code.MODEL_FAILED, f"model 'm' cannot be batched: {reason}")


@pytest.mark.parametrize("output", [None, (ANY, FOUR), (ANY, ANY, FOUR)])
@pytest.mark.parametrize("type_name", ["f32", "string", "u4", "u2"])
def test_a_model_with_rows_is_not_refused(output: Shape, type_name: str) -> None:
    check_can_be_batched(
        ModelSpec("m", (port("x", (ANY, FOUR), type_name),), (port("y", output, type_name),)), Batching(8)
    )
