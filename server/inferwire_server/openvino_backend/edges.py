"""Steps through the nodes of a graph, and leads its edges elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

LOOPS = ("Loop", "TensorIterator")
WITH_BODIES = ("If", *LOOPS)
FLOATS = ("f16", "f32")


def nodes(model: Any) -> Iterator[Any]:
    """Give all nodes, each behind those that it takes something from, those in bodies of branches and loops, too."""
    for node in model.get_ordered_ops():
        yield node
        for body in bodies(node):
            yield from nodes(body)


def bodies(node: Any) -> tuple[Any, ...]:
    """Give the graphs within a branch or a loop."""
    kind = node.get_type_name()
    if kind == "If":
        return node.get_then_body(), node.get_else_body()
    return (node.get_function(),) if kind in LOOPS else ()


def sources(node: Any) -> list[Any]:
    """Give the nodes that a node takes something from."""
    return [value.get_node() for value in node.input_values()]


def before_conversions(value: Any) -> Any:
    """Give the node that computes a value, or what the value is converted from."""
    node = value.get_node()
    while node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    return node


def lead(targets: Any, source: Any) -> None:
    """Have inputs of nodes take another output. The names of a model's outputs are their results' own."""
    for target in targets:
        target.replace_source_output(source)


def is_of_shapes(node: Any) -> bool:
    """Whether what a node gives is computed of shapes and constants alone."""
    ahead, seen = [node], set[str]()
    while ahead:
        node = ahead.pop()
        kind, name = node.get_type_name(), node.get_name()
        if kind == "Parameter":
            return False
        if kind != "ShapeOf" and name not in seen:
            seen.add(name)
            ahead += sources(node)
    return True
