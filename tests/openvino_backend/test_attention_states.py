"""Which states attention keeps its keys and values in, however they come to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset6, opset13
from tests.openvino_backend.small_models import variable

from inferwire_server.openvino_backend.attention_states import pairs_of

op: Any = opset13
make: Any = openvino.Model


def attending(prepare: Callable[[Any], Any]) -> Any:
    """Make a model in which attention takes what a function makes of each of two states."""
    data = op.parameter([-1, 2, -1, 16], np.float32)
    sinks, taken = list[Any](), list[Any]()
    for name in ("before", "beside"):
        kept = variable(name, -1, 2, -1, 16)
        state = opset6.read_value(op.constant(np.zeros((1, 2, 0, 16), np.float32)), kept)
        sinks.append(opset6.assign(op.concat([state, data], 2), kept))
        taken.append(prepare(state))
    query = op.parameter([-1, taken[0].get_output_partial_shape(0)[1], -1, 16], np.float32)
    return make([op.result(op.scaled_dot_product_attention(query, *taken))], sinks, [query, data], "m")


def more(state: Any) -> Any:
    return op.concat([state, op.constant(np.zeros((1, 2, 1, 16), np.float32))], 2)


def of_chosen_rows(state: Any) -> Any:
    return more(op.gather(state, op.constant(np.zeros(1, np.int32)), np.int64(0)))


def of_another_precision(state: Any) -> Any:
    return op.convert(op.convert(more(state), "f16"), "f32")


def of_turned_rows(state: Any) -> Any:
    swapped = op.constant(np.array([0, 1, 3, 2]))
    return op.transpose(op.transpose(more(state), swapped), swapped)


def for_several_heads(state: Any) -> Any:
    rows = op.constant(np.array([1, 1, 2, 1, 1]))
    each = op.broadcast(op.unsqueeze(more(state), np.int64(2)), rows, broadcast_spec="BIDIRECTIONAL")
    return op.reshape(each, np.array([0, 4, -1, 16]), True)


def for_several_heads_by_ones(state: Any) -> Any:
    each = op.multiply(op.unsqueeze(more(state), np.int64(2)), op.constant(np.ones((1, 1, 2, 1, 1), np.float32)))
    return op.reshape(each, np.array([0, 4, -1, 16]), True)


@pytest.mark.parametrize(
    "prepare",
    [more, of_chosen_rows, of_another_precision, of_turned_rows, for_several_heads, for_several_heads_by_ones],
)
def test_attention_s_states_are_found_where_something_is_joined_to_them(prepare: Callable[[Any], Any]) -> None:
    assert pairs_of(attending(prepare)) == (("before", "beside"),)


def nothing(state: Any) -> Any:
    return state


def of_other_values(state: Any) -> Any:
    return more(op.relu(state))


@pytest.mark.parametrize("prepare", [nothing, of_other_values])
def test_states_that_attention_does_not_extend_go_by_themselves(prepare: Callable[[Any], Any]) -> None:
    assert pairs_of(attending(prepare)) == ()
