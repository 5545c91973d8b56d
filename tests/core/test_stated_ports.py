"""What is said of a model's inputs and outputs is checked, and what the model leaves open becomes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.specs import Dimension, PortSpec, Shape
from inferwire_server.core.stated_ports import StatedPort, StatedPorts
from inferwire_server.engine.fake_backend import echo_spec
from inferwire_server.errors import ServingError

ANY = Dimension(0, None)
X = echo_spec("m").inputs[0]


def fixed(*lengths: int) -> tuple[Dimension, ...]:
    return tuple(Dimension(length, length) for length in lengths)


def stated(port: StatedPort, most_rows: int = 0) -> StatedPorts:
    return StatedPorts("m/config.pbtxt", {"x": port}, {"x": port}, most_rows)


def ports(shape: Shape) -> Sequence[PortSpec]:
    return (replace(X, shape=shape),)


FITTING: list[tuple[Shape, tuple[int, ...], int, Shape]] = [
    ((ANY, *fixed(4)), (-1, 4), 0, (ANY, *fixed(4))),
    ((ANY, ANY), (-1, 4), 0, (ANY, *fixed(4))),
    ((ANY, Dimension(1, 8)), (-1, 4), 0, (ANY, *fixed(4))),
    ((ANY, Dimension(1, 8)), (-1, -1), 0, (ANY, Dimension(1, 8))),
    (fixed(1, 4), (-1, -1), 0, fixed(1, 4)),
    (None, (-1, 4), 0, (ANY, *fixed(4))),
    ((), (), 0, ()),
    (fixed(1, 4), (4,), 8, (ANY, *fixed(4))),
    ((Dimension(1, 16), *fixed(4)), (4,), 8, (Dimension(1, 16), *fixed(4))),
    ((ANY, ANY, ANY), (3, -1), 8, (ANY, *fixed(3), ANY)),
    (None, (4,), 8, (ANY, *fixed(4))),
    (fixed(1, 4), (4,), 1, fixed(1, 4)),
    ((ANY, *fixed(4)), (4,), 1, fixed(1, 4)),
    (fixed(2, 4), (4,), 1, (ANY, *fixed(4))),
]


@pytest.mark.parametrize(("own", "dims", "most_rows", "expected"), FITTING)
def test_an_input_gets_the_shape_that_both_say(
    own: Shape, dims: Sequence[int], most_rows: int, expected: Shape
) -> None:
    said = stated(StatedPort(X.element_type, tuple(dims)), most_rows)
    assert said.input_shapes(ports(own)) == ({} if own == expected else {0: expected})
    said.check_outputs(ports(own))


def test_of_what_is_not_said_nothing_changes() -> None:
    assert stated(StatedPort()).input_shapes(ports((ANY, ANY))) == {}


MISFITTING: list[tuple[StatedPort, int, str]] = [
    (StatedPort(dims=(-1, 5)), 0, "'x' is said to have dims [-1,5], and the model's has [?,4]"),
    (StatedPort(dims=(-2, 4)), 0, "'x' is said to have dims [-2,4], and the model's has [?,4]"),
    (StatedPort(dims=(4,)), 0, "'x' is said to have dims [4], and the model's has [?,4]"),
    (
        StatedPort(dims=(-1, 4)),
        8,
        "'x' is said to have dims [-1,4] behind that of the batch, and the model's has [?,4]",
    ),
    (StatedPort(BY_NAME["i8"]), 0, "'x' is said to be of i8, and the model's is of f32"),
]


@pytest.mark.parametrize(("port", "most_rows", "sentence"), MISFITTING)
def test_what_the_model_is_not_fails_it(port: StatedPort, most_rows: int, sentence: str) -> None:
    said = stated(port, most_rows)
    for kind, check in (("input", said.input_shapes), ("output", said.check_outputs)):
        with pytest.raises(ServingError) as caught:
            check(ports(X.shape))
        assert caught.value.code is Code.MODEL_FAILED
        assert caught.value.message == f"m/config.pbtxt: {kind} {sentence}"


@pytest.mark.parametrize(
    ("shape", "most_rows", "layout"),
    [(fixed(1, 3, 2, 2), 8, "NCHW"), (fixed(1, 3, 2, 2), 0, "NCHW"), (fixed(3, 2, 2), 0, "CHW")],
)
def test_an_input_has_the_layout_that_is_stated(shape: Shape, most_rows: int, layout: str) -> None:
    said = stated(StatedPort(row_layout="CHW"), most_rows)
    assert said.input_layouts(ports(shape)) == {0: layout}


def test_the_layout_of_the_model_itself_stays() -> None:
    own = (replace(X, shape=fixed(1, 2, 2, 3), layout="[N,H,W,C]"),)
    assert stated(StatedPort(row_layout="CHW")).input_layouts(own) == {}


def test_of_what_is_not_said_or_has_no_rank_there_is_no_layout() -> None:
    assert stated(StatedPort()).input_layouts(ports(fixed(1, 3, 2, 2))) == {}
    assert stated(StatedPort(row_layout="CHW")).input_layouts(ports(None)) == {}


@pytest.mark.parametrize(
    ("shape", "most_rows", "expected"),
    [
        (fixed(1, 4), 0, "NCHW or CHW, and the model's has [1,4]"),
        (fixed(8, 2, 2), 8, "NCHW, and the model's has [8,2,2]"),
    ],
)
def test_what_is_no_picture_has_no_layout_of_one(shape: Shape, most_rows: int, expected: str) -> None:
    with pytest.raises(ServingError) as caught:
        stated(StatedPort(row_layout="CHW"), most_rows).input_layouts(ports(shape))
    sentence = f"m/config.pbtxt: input 'x' is said to be pictures of the layout {expected}"
    assert (caught.value.code, caught.value.message) == (Code.MODEL_FAILED, sentence)


def test_all_that_is_wrong_is_said_at_once() -> None:
    said = StatedPorts("m/config.pbtxt", {"z": StatedPort(), "x": StatedPort(BY_NAME["i8"], (1,))}, {"z": StatedPort()})
    with pytest.raises(ServingError) as caught:
        said.input_shapes(ports(X.shape))
    assert caught.value.message == (
        "m/config.pbtxt: there is no input 'z', expected one of 'x'; input 'x' is said to be of i8, and the model's is "
        "of f32; input 'x' is said to have dims [1], and the model's has [?,4]"
    )
    with pytest.raises(ServingError, match="there is no output 'z', expected one of none"):
        said.check_outputs(())
