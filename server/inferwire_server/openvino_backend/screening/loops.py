"""Mends what the CPU plugin would mix up between the turns of a loop, or inferences. Takes graphs as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from openvino import opset13
from openvino.op.util import BodyOutputDescription, MergedInputDescription

from inferwire_server.openvino_backend.edges import FLOATS, LOOPS, WITH_BODIES, is_of_shapes, lead, nodes
from inferwire_server.openvino_backend.screening.unforeseen import never

op: Any = opset13

_ROWS = 2
"""How many dimensions what has rows has at least."""

_END = np.iinfo(np.int32).max
"""Where a slice ends that takes everything."""


def leave_first_shapes_open(model: Any) -> None:
    """Have what a loop carries begin in a shape that is left open where its turns may give it another.

    As of OpenVINO 2026.4 a body is compiled for the first shape if that is known, unless a Loop's last value is used,
    too. The CPU plugin then takes as many elements in each turn as in the first: it goes past the memory's end of what
    has become shorter, and mixes up the rows of what has grown.
    """
    loops = [node for node in nodes(model) if node.get_type_name() in LOOPS]
    for loop in loops:
        computed = [value for value in loop.input_values() if not is_of_shapes(value.get_node())]
        for carried, free in _changing(loop) if computed else ():
            nothing, first = op.convert(never(computed[0]), "i64"), carried.get_source_output()
            lengths = op.split(op.shape_of(first), np.int64(0), len(first.get_partial_shape())).outputs()
            opened = [op.add(length, nothing) if axis in free else length for axis, length in enumerate(lengths)]
            lead([carried], op.broadcast(first, op.concat(opened, 0)).output(0))
    if loops:
        model.validate_nodes_and_infer_types()


def empty_what_no_turn_gives(model: Any) -> None:
    """Have a loop that takes no turn give nothing, or zeros, for what is only known once it has taken one.

    As of OpenVINO 2026.4 the CPU plugin leaves such outputs as they were: the caller gets the whole of what the loop
    gave in the inference before, another caller's. What a loop begins with and gives back at its end is right.
    """
    for loop in [node for node in nodes(model) if node.get_type_name() == "Loop" and _may_take_no_turn(node)]:
        count, goes_on = loop.input_value(0), loop.input_value(1)
        takes_one = op.logical_and(op.not_equal(count, op.convert_like(np.int64(0), count)), goes_on)
        takes_one = op.reshape(takes_one, np.zeros(0, np.int64), False)
        for given in _given_by_turns(loop):
            lead(given.get_target_inputs(), _given_if(takes_one, given))


def empty_what_is_read_as_zero(model: Any) -> None:
    """Have a branch that gives the whole number 0 where the other gives a list of them give an empty list.

    As of OpenVINO 2026.4 an empty list in a branch is read from ONNX as the number 0. torchvision's detectors have one
    for where nothing is found: they then take the first region of none, which is what others left there.
    """
    zeros = [result for node in nodes(model) if node.get_type_name() == "If" for result in _zeros_beside_lists(node)]
    for result in zeros:
        result.input(0).replace_source_output(op.constant(np.zeros(0, np.int64)).output(0))
    if zeros:
        model.validate_nodes_and_infer_types()


def copy_what_bodies_give(model: Any) -> None:
    """Have what a loop or a branch gives in a dynamic shape copied for whatever uses it but the model's results.

    As of OpenVINO 2026.4 the CPU plugin has softmax, a product of matrices, or a recurrent network read it where it was
    for the request before, where it is also a result: one caller's outputs are computed from another's loop. After a
    branch, even the first inference may read memory that nobody has written to. So does what makes bf16 of f32 where
    the plugin computes in bf16: a model's states, too, are what lies there.
    """
    for node in [*nodes(model)]:
        if node.get_type_name() in WITH_BODIES:
            for given in node.outputs():
                targets = [
                    target for target in given.get_target_inputs() if target.get_node().get_type_name() != "Result"
                ]
                # Strings are read by none of these, and are not copied so.
                is_string = given.get_element_type().get_type_name() == "string"
                if targets and given.get_partial_shape().is_dynamic and not is_string:
                    lead(targets, _copy(given))


def _zeros_beside_lists(branch: Any) -> Iterator[Any]:
    """Give the results of a branch's bodies that are the number 0 where the other body's are lists."""
    for pair in zip(_results_of(branch, 0), _results_of(branch, 1), strict=True):
        for one, other in (pair, pair[::-1]):
            if _is_zero(one.input_value(0).get_node()) and other.get_output_partial_shape(0).rank == 1:
                yield one


def _results_of(branch: Any, at: int) -> list[Any]:
    """Give the results of one of a branch's bodies, in the order of the branch's outputs."""
    body = (branch.get_then_body, branch.get_else_body)[at]()
    described = sorted(branch.get_output_descriptions(at), key=lambda each: each.output_index)
    return [body.results[each.body_value_index] for each in described]


def _is_zero(node: Any) -> bool:
    if node.get_type_name() != "Constant" or node.get_element_type().get_type_name() != "i64":
        return False
    return not len(node.get_output_shape(0)) and not node.data.any()


def _copy(given: Any) -> Any:
    """Copy an output. Nothing but a computed shape, choice or place keeps that from being left out as useless.

    Rows of floats are looked up by their places, which is done in f32 also if all else is in bf16. The compiler fails
    at a Broadcast of an unknown number of dimensions, as what a branch gives has until it is known which of its bodies
    is taken. No length is less than 0, which the compiler does not know.
    """
    shape, kind = op.shape_of(given), given.get_element_type().get_type_name()
    rank = given.get_partial_shape().rank
    if rank.is_dynamic:
        longest = op.reduce_max(shape, np.zeros(1, np.int64))
        return op.select(op.less(longest, np.int64(0)), given, given).output(0)
    if kind in FLOATS and rank.get_length() >= _ROWS:
        count = op.gather(shape, np.int64(0), np.int64(0))
        places = op.unsqueeze(op.range(np.int64(0), count, np.int64(1), "i64"), np.array([1]))
        return op.embedding_bag_packed_sum(given, places).output(0)
    return op.broadcast(given, shape).output(0)


def _changing(loop: Any) -> Iterator[tuple[Any, set[int]]]:
    """Give the inputs that a loop carries on, with the axes that are known of the first and may be others later."""
    for each in loop.get_input_descriptions():
        if isinstance(each, MergedInputDescription):
            carried = loop.input(each.input_index)
            first = carried.get_source_output().get_partial_shape()
            later = loop.get_function().results[each.body_value_index].get_output_partial_shape(0)
            if first.rank.is_static and later.rank == first.rank:
                pairs = enumerate(zip(first, later, strict=True))
                free = {axis for axis, (before, after) in pairs if before.is_static and before != after}
                if free:
                    yield carried, free


def _may_take_no_turn(loop: Any) -> bool:
    """Whether the count of a loop's turns or its first condition is computed, or is known to be 0 or false."""
    return not all(
        node.get_type_name() == "Constant" and node.data.all()
        for node in (loop.input_value(0).get_node(), loop.input_value(1).get_node())
    )


def _given_by_turns(loop: Any) -> Iterator[Any]:
    """Give the outputs that a loop has nothing for before its first turn: all but the values that it carries."""
    carried = {
        each.body_value_index for each in loop.get_input_descriptions() if isinstance(each, MergedInputDescription)
    }
    for each in loop.get_output_descriptions():
        if not isinstance(each, BodyOutputDescription) or each.body_value_index not in carried:
            yield loop.output(each.output_index)


def _given_if(condition: Any, given: Any) -> Any:
    """Give an output on a condition; else nothing, or zeros where its shape is always the same."""
    free = [axis for axis, length in enumerate(given.get_partial_shape()) if length.is_dynamic]
    if not free:
        return op.select(condition, given, op.convert(np.int64(0), given.get_element_type())).output(0)
    ends = op.multiply(op.convert(condition, "i64"), np.full(len(free), _END))
    return op.slice(given, np.zeros_like(free), ends, np.ones_like(free), np.array(free)).output(0)
