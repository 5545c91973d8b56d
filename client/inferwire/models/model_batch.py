"""The batch of a model's inputs, found by their layouts: `get_batch` and `set_batch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex, overload

from inferwire.arguments import as_integer, in_order, incompatible
from inferwire.graph.ports import Output
from inferwire.models.model import Model, check_model
from inferwire.values.dimensions import Dimension, as_dimension
from inferwire.values.partial_shape import PartialShape

_SET_SIGNATURES = ("(model: object, dimension: Dimension) -> None", "(model: object, batch_size: int = -1) -> None")


def get_batch(model: Model) -> Dimension:
    """Give the dimension that the inputs' layouts call N. Mirrors `openvino.get_batch`.

    Raises:
        TypeError: For what is no model.
        RuntimeError: If no input's layout has a batch, or the inputs' batches differ.
    """
    low, high = 0, -1
    for port, axis in _batches(model).items():
        batch = port.partial_shape[axis]
        if not batch.compatible(Dimension(low, high)):
            raise RuntimeError(
                f"Get original batch size fails due to conflicting batch values for inputs:\n{_listed(model)}"
                "---\nPlease ensure that N(Batch) dimension is set correctly for listed parameters"
            )
        low = max(low, batch.min_length)
        high = min((each for each in (high, batch.max_length) if each >= 0), default=-1)
    return Dimension(low, high)


@overload
def set_batch(model: Model, dimension: Dimension) -> None: ...
@overload
def set_batch(model: Model, batch_size: SupportsIndex = ...) -> None: ...
def set_batch(model: Model, *args: Any, **kwargs: Any) -> None:
    """Reshape the inputs so that what their layouts call N is this long. Mirrors `openvino.set_batch`.

    Args:
        model: A model of `Core.read_model`.
        args: The batch, as a number or a dimension; any, unless given.
        kwargs: The same as `batch_size` or `dimension`.

    Raises:
        TypeError: For what is no model or no batch.
        RuntimeError: If no input's layout has a batch, the inputs' batches differ, or the model cannot take this one.
    """
    batch = _given_batch(model, args, kwargs)
    get_batch(model)
    shapes: dict[Output, PartialShape] = {}
    for port, axis in _batches(model).items():
        shapes[port] = PartialShape(list(port.partial_shape))
        shapes[port][axis] = batch
    try:
        model.reshape(shapes)
    except RuntimeError as error:
        raise RuntimeError(
            f"Failed to set batch size to {batch}. Possible reasons are:\n"
            "    1) Ensure that all inputs have valid layout set with batch dimension\n"
            "    2) Check model's documentation if batch size can be set to it at all\n"
            f"Available inputs:\n{_listed(model)}---\nOriginal error message is: {error}"
        ) from error


def _batches(model: Model) -> dict[Output, int]:
    """Give the inputs that have a batch, and which of their dimensions it is."""
    check_model(model)
    found = {port: _axis(port) for port in model.inputs}
    batches = {port: axis for port, axis in found.items() if axis is not None}
    if not batches:
        raise RuntimeError(
            "Get original batch size fails due to batch is not set in any layout for any input. "
            f"Available inputs:\n{_listed(model)}---\nPlease use 'set_layout' API to set layout with batch dimension, "
            'e.g. `Model->get_parameters()[index]->set_layout("NCHW");`'
        )
    return batches


def _axis(port: Output) -> int | None:
    layout = port.node.layout
    if not layout.has_name("N") or port.partial_shape.rank.is_dynamic:
        return None
    return layout.get_index_by_name("N") % len(port.partial_shape)


def _listed(model: Model) -> str:
    """List the inputs, each with its batch if it is known."""
    lines: list[str] = []
    for index, port in enumerate(model.inputs):
        axis = _axis(port)
        batch = "no batch specified" if axis is None else f"batch={port.partial_shape[axis]}"
        name = min(port.names, default=port.node.friendly_name)
        lines.append(f"{index}: {{ name='{name}', shape={port.partial_shape}, layout={port.node.layout}, {batch} }}\n")
    return "".join(lines)


def _given_batch(model: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Dimension:
    given = in_order(args, kwargs, ("batch_size",), ("dimension",), ())
    value: Any = None if given is None else given[0] if given else -1
    number = None if "dimension" in kwargs else as_integer(value)
    batch = as_dimension(value) if number is None else Dimension(number)
    if batch is None:
        raise incompatible("set_batch", *_SET_SIGNATURES, invoked=(model, *args), keywords=kwargs)
    return batch
