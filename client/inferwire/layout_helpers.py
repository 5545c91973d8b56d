"""What a layout says of the usual dimensions, and the layouts of ports. Mirrors `openvino.layout_helpers`."""

from __future__ import annotations

from inferwire.arguments import incompatible
from inferwire.graph.foreign_ports import as_port
from inferwire.graph.ports import Output, Port
from inferwire.tab_completion import offered
from inferwire.values.layout import Layout, as_layout


def get_layout(port: Port) -> Layout:
    """Give the layout that was set for a port or is in its model's file; else an empty one.

    Raises:
        TypeError: For what is no port.
    """
    known = as_port(port)
    if known is None:
        raise incompatible("get_layout", "(port: Output)", "(port: ConstOutput)", invoked=(port,))
    return known.node.layout


def set_layout(port: Output, layout: Layout) -> None:
    """Set the layout of a port of a model, which `PrePostProcessor` takes for the model's.

    Args:
        port: An input or output of `Core.read_model`'s model.
        layout: A name for each dimension, in the order of the shape.

    Raises:
        TypeError: For what is no port of a model that is not compiled, or no layout.
        RuntimeError: For a layout of other dimensions than the port's.
    """
    known = as_layout(layout)
    if known is None or not isinstance(port, Output):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise incompatible("set_layout", "(port: Output, layout: Layout) -> None", invoked=(port, layout))
    port.node.layout = known


def has_batch(layout: Layout) -> bool:
    """Tell whether a dimension is N."""
    return _layout("has_batch", "bool", layout).has_name("N")


def has_channels(layout: Layout) -> bool:
    """Tell whether a dimension is C."""
    return _layout("has_channels", "bool", layout).has_name("C")


def has_depth(layout: Layout) -> bool:
    """Tell whether a dimension is D."""
    return _layout("has_depth", "bool", layout).has_name("D")


def has_height(layout: Layout) -> bool:
    """Tell whether a dimension is H."""
    return _layout("has_height", "bool", layout).has_name("H")


def has_width(layout: Layout) -> bool:
    """Tell whether a dimension is W."""
    return _layout("has_width", "bool", layout).has_name("W")


def batch_idx(layout: Layout) -> int:
    """Give the position of N, counted from the end behind "..."."""
    return _layout("batch_idx", "int", layout).get_index_by_name("N")


def channels_idx(layout: Layout) -> int:
    """Give the position of C, counted from the end behind "..."."""
    return _layout("channels_idx", "int", layout).get_index_by_name("C")


def depth_idx(layout: Layout) -> int:
    """Give the position of D, counted from the end behind "..."."""
    return _layout("depth_idx", "int", layout).get_index_by_name("D")


def height_idx(layout: Layout) -> int:
    """Give the position of H, counted from the end behind "..."."""
    return _layout("height_idx", "int", layout).get_index_by_name("H")


def width_idx(layout: Layout) -> int:
    """Give the position of W, counted from the end behind "..."."""
    return _layout("width_idx", "int", layout).get_index_by_name("W")


def _layout(function: str, gives: str, layout: object) -> Layout:
    known = as_layout(layout)
    if known is None:
        raise incompatible(function, f"(layout: Layout) -> {gives}", invoked=(layout,))
    return known


__dir__ = offered(globals())
