"""What a layout says of the usual dimensions, and the layouts of ports. Mirrors `openvino.layout_helpers`."""

from __future__ import annotations

from inferwire.arguments import incompatible
from inferwire.layout import Layout
from inferwire.ports import ConstOutput


def get_layout(port: ConstOutput) -> Layout:
    """Give the layout that was set for a port or is in its model's file; else one that says nothing."""
    return _port("get_layout", port).node.layout


def set_layout(port: ConstOutput, layout: Layout | str) -> None:
    """Set a port's layout, which `PrePostProcessor` takes for the model's."""
    _port("set_layout", port, layout).node.layout = layout if isinstance(layout, Layout) else Layout(str(layout))


def has_batch(layout: Layout) -> bool:
    """Tell whether a dimension is N."""
    return layout.has_name("N")


def has_channels(layout: Layout) -> bool:
    """Tell whether a dimension is C."""
    return layout.has_name("C")


def has_depth(layout: Layout) -> bool:
    """Tell whether a dimension is D."""
    return layout.has_name("D")


def has_height(layout: Layout) -> bool:
    """Tell whether a dimension is H."""
    return layout.has_name("H")


def has_width(layout: Layout) -> bool:
    """Tell whether a dimension is W."""
    return layout.has_name("W")


def batch_idx(layout: Layout) -> int:
    """Give the position of N, counted from the end behind "..."."""
    return layout.get_index_by_name("N")


def channels_idx(layout: Layout) -> int:
    """Give the position of C, counted from the end behind "..."."""
    return layout.get_index_by_name("C")


def depth_idx(layout: Layout) -> int:
    """Give the position of D, counted from the end behind "..."."""
    return layout.get_index_by_name("D")


def height_idx(layout: Layout) -> int:
    """Give the position of H, counted from the end behind "..."."""
    return layout.get_index_by_name("H")


def width_idx(layout: Layout) -> int:
    """Give the position of W, counted from the end behind "..."."""
    return layout.get_index_by_name("W")


def _port(function: str, port: object, *rest: object) -> ConstOutput:
    if not isinstance(port, ConstOutput):
        raise incompatible(function, "(port: Output)", "(port: ConstOutput)", invoked=(port, *rest))
    return port
