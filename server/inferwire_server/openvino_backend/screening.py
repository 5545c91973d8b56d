"""Models that would bring the whole server down as they run, refused before they are compiled.

Knows which operations OpenVINO's plugins do past the end of their memory. Takes graphs as they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def refuse_unsafe(model: Any) -> None:
    """Refuse a graph with an operation that is known to corrupt memory, in bodies of its branches and loops, too.

    Raises:
        ValueError: For such a graph; names the node.
    """
    for node in _nodes(model):
        # As of OpenVINO 2026.4 the CPU plugin writes eight times as much as a u1 tensor has.
        if node.get_type_name() == "Convert" and node.get_output_element_type(0).get_type_name() == "u1":
            raise ValueError(
                f"node '{node.get_friendly_name()}' converts to u1, which OpenVINO does not do within its memory; "
                "expected u8 or boolean"
            )


def _nodes(model: Any) -> Iterator[Any]:
    for node in model.get_ops():
        yield node
        for body in _bodies(node):
            yield from _nodes(body)


def _bodies(node: Any) -> tuple[Any, ...]:
    kind = node.get_type_name()
    if kind == "If":
        return node.get_then_body(), node.get_else_body()
    return (node.get_function(),) if kind in ("Loop", "TensorIterator") else ()
