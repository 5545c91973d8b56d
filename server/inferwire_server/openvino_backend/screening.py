"""Refuses or mends models that would bring the whole server down as they run, before they are compiled.

Knows in which operations OpenVINO's plugins go past the end of their memory. Takes graphs as they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from openvino import opset13

op: Any = opset13


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


def part_inputs_from_results(model: Any) -> None:
    """Put operations between an input of a dynamic shape and a result if all that is between them does nothing.

    What does nothing is a conversion to the type that a tensor has already. As of OpenVINO 2026.4 the CPU plugin drops
    such a conversion so late that the output keeps the memory of the first shape: it gives what others left there, and
    writes past its end. Other operations that do nothing are safe.
    """
    for result in model.get_results():
        kept = result.input_value(0)
        if not _does_nothing(kept.get_node()) or kept.get_partial_shape().is_static:
            continue
        source = kept
        while _does_nothing(source.get_node()):
            source = source.get_node().input_value(0)
        first = np.zeros(1, np.int64)
        parted = op.squeeze(op.unsqueeze(source, first), first, name=kept.get_node().get_friendly_name())
        names = kept.get_names()
        kept.get_tensor().set_names(set())
        parted.output(0).get_tensor().set_names(names)
        for target in kept.get_target_inputs():
            target.replace_source_output(parted.output(0))


def _does_nothing(node: Any) -> bool:
    is_conversion = node.get_type_name() in ("Convert", "ConvertLike")
    return is_conversion and node.get_input_element_type(0) == node.get_output_element_type(0)


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
