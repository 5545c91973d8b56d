"""Has states begin with their own caller's values, and products of matrices of these computed until they have begun.

Takes graphs as they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset6, opset13
from openvino.op.util import Variable, VariableInfo

from inferwire_server.openvino_backend.edges import WITH_BODIES, lead, nodes, sources
from inferwire_server.openvino_backend.screening.unforeseen import never

op: Any = opset13
make: Any = ov.Model

BEGUN = "inferwire: states have begun"
"""The state that is added to a model whose other states begin with what takes long to compute: 1 after an inference,
and 0 before. It is the server's own: callers neither see nor write it, and it is reset with any other."""

_MOST_COMPARED_BYTES = 4096
"""Constants of more bytes are compared with no other: no state begins with so much that is nothing."""

_KEPT_APART = ("ReadValue", *WITH_BODIES)
"""What no branch takes in."""


def begin_states(model: Any) -> None:
    """Have the value that a state begins with used beside the state, too, if it is computed and has a dynamic shape.

    As of OpenVINO 2026.4 the CPU plugin moves into a state's node what computes the first value for it alone. Where the
    shapes that this is computed from are those that it was last computed from, the node leaves its memory as it is, and
    that has the shape of the state of whichever request ran last: the next gets rows of another caller's state beside
    its own, or its own are written past the memory's end. What something else uses, too, is not moved: that is so for a
    language model's first keys and values, which are all the same empty one.

    What is not moved is computed in each inference. A branch keeps products of matrices from that.
    """
    reads = [node for node in nodes(model) if node.get_type_name() == "ReadValue" and node.get_input_size()]
    values = [read.input_value(0) for read in reads]
    origins = _Origins()
    empty = Counter(origins.of(value) for value in values if _is_always_empty(value))
    moved = [
        read
        for read, value in zip(reads, values, strict=True)
        if value.get_node().get_type_name() not in ("Constant", "Parameter")
        and not value.get_partial_shape().is_static
        and not (_is_always_empty(value) and empty[origins.of(value)] > 1)
    ]
    slow, in_branch = _slow(model), list[Any]()
    for read in moved:
        value = read.input_value(0)
        if value.get_node().get_name() in slow and value.get_partial_shape().rank.is_static:
            in_branch.append(read)
        else:
            _use_twice(read)
    if in_branch:
        _begin_in_branch(model, in_branch)


def _use_twice(read: Any) -> None:
    state = read.output(0)
    targets = state.get_target_inputs()
    first = op.convert(never(read.input_value(0)), "i64")
    picked = op.gather(op.unsqueeze(state, np.int64(0)), first, np.int64(0))
    lead(targets, picked.output(0))


def _slow(model: Any) -> set[str]:
    """Name the nodes that take a product of matrices to compute, and nothing that a branch does not take in."""
    slow, apart = set[str](), set[str]()
    for node in model.get_ordered_ops():
        kind, name = node.get_type_name(), node.get_name()
        before = {source.get_name() for source in sources(node)}
        if kind in _KEPT_APART or not before.isdisjoint(apart):
            apart.add(name)
        elif kind == "MatMul" or not before.isdisjoint(slow):
            slow.add(name)
    return slow


def _begin_in_branch(model: Any, reads: Sequence[Any]) -> None:
    """Have a branch compute what states begin with, which is taken until they have begun, and else gives nothing.

    That they have begun depends on what the branch gives: so it is used beside the states.
    """
    places = {node.get_name(): at for at, node in enumerate(model.get_ordered_ops())}
    copy = model.clone()
    copied = copy.get_ordered_ops()
    values = [copied[places[read.get_name()]].input_value(0) for read in reads]
    inner = [node for node in _behind(values) if node.get_type_name() == "Parameter"]
    computing = make([op.result(value) for value in values], inner, "states begin")
    continuing = make([op.result(_nothing(value)) for value in values], [], "states go on")

    state = _state_of_begun()
    begun = opset6.read_value(op.constant(np.zeros(1, np.float32)), state)
    branch = op.if_op(op.squeeze(op.equal(begun, np.float32(0)), np.array([0])).output(0))
    branch.set_then_body(computing)
    branch.set_else_body(continuing)
    outer = dict(zip((each.get_name() for each in copy.get_parameters()), model.get_parameters(), strict=True))
    for parameter in inner:
        branch.set_input(outer[parameter.get_name()].output(0), parameter, None)
    has_begun = op.constant(np.ones(1, np.float32))
    for read, taken, other in zip(reads, computing.results, continuing.results, strict=True):
        _declare(model, read)
        first = branch.set_output(taken, other)
        lead([read.input(0)], first)
        has_begun = op.add(has_begun, op.convert(never(first), "f32"))
    model.add_variables([state])
    model.add_sinks([opset6.assign(has_begun, state)])
    model.validate_nodes_and_infer_types()


def _declare(model: Any, read: Any) -> None:
    """Declare a state's shape. The compiler takes one that is not declared to be as long as what it begins with."""
    info = VariableInfo()
    info.data_shape, info.data_type = read.get_output_partial_shape(0), read.get_output_element_type(0)
    info.variable_id = read.get_attributes()["variable_id"]
    model.get_variable_by_id(info.variable_id).update(info)


def _state_of_begun() -> Any:
    info = VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([1]), ov.Type.f32, BEGUN
    return Variable(info)


def _nothing(value: Any) -> Any:
    """Give no elements, of the type and the dimensions of a value."""
    shape = [0 if length.is_dynamic else length.get_length() for length in value.get_partial_shape()]
    return op.constant(np.zeros(shape), dtype=value.get_element_type())


def _behind(values: Iterable[Any]) -> list[Any]:
    """Give the nodes that values are computed by."""
    ahead, found = [value.get_node() for value in values], dict[str, Any]()
    while ahead:
        node = ahead.pop()
        if node.get_name() not in found:
            found[node.get_name()] = node
            ahead += sources(node)
    return list(found.values())


def _is_always_empty(value: Any) -> bool:
    shape = value.get_partial_shape()
    return shape.rank.is_static and any(length == 0 for length in shape)


class _Origins:
    """Numbers what computes values. What OpenVINO makes one of, because it is computed alike, has the same number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._of_nodes: dict[str, int] = {}

    def of(self, value: Any) -> tuple[int, int]:
        """Give the number of what computes a value, and which of its outputs the value is."""
        ahead = [value.get_node()]
        while ahead:
            node = ahead[-1]
            before = [each for each in sources(node) if each.get_name() not in self._of_nodes]
            if before:
                ahead += before
            else:
                self._of_nodes[node.get_name()] = self._numbers.setdefault(self._key(node), len(self._numbers))
                ahead.pop()
        return self._of_nodes[value.get_node().get_name()], value.get_index()

    def _key(self, node: Any) -> tuple[Any, ...]:
        kind = node.get_type_name()
        if kind == "Parameter" or (kind == "Constant" and node.data.nbytes > _MOST_COMPARED_BYTES):
            return (node.get_name(),)
        if kind == "Constant":
            return node.get_element_type().get_type_name(), tuple(node.get_output_shape(0)), node.data.tobytes()
        given = [(self._of_nodes[each.get_node().get_name()], each.get_index()) for each in node.input_values()]
        return kind, repr(node.get_attributes()), *given
