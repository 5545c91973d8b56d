"""The inputs that a load sends: given ones, else random numbers in shapes that the model takes. Knows no server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inferwire.graph.described import PortDescription
from inferwire.values.dimensions import Dimension
from inferwire.values.partial_shape import PartialShape
from inferwire.values.types import Type
from inferwire_cli.infer.elements import Array, byte_size, refuse_packed, why_too_large
from inferwire_cli.infer.values import assign
from inferwire_cli.terminal import MisuseError

_MOST_DIGITS = 18

SEED = 7
"""Every run sends the same numbers."""


def complete(
    given: Mapping[int, Array], ports: Sequence[PortDescription], shapes: Sequence[str], batch: int | None
) -> dict[int, Array]:
    """Give every input, random numbers for those that are missing, each with as many rows as are wanted.

    Raises:
        MisuseError: For a shape that an input does not take, or one that has to be given.
    """
    wanted = {at: _lengths(text) for at, text in assign(shapes, ports, "--shape").items()}
    random = np.random.default_rng(SEED)
    values: dict[int, Array] = {}
    for at, port in enumerate(ports):
        if at in given:
            values[at] = repeated(given[at], port, batch)
        else:
            values[at] = random_value(port, wanted.get(at) or default_shape(port, batch), random)
    return values


def repeated(array: Array, port: PortDescription, batch: int | None) -> Array:
    """Give one row as often as rows are wanted.

    Raises:
        MisuseError: If the array has not just one row, or the input does not take so many.
    """
    if batch is None or not array.ndim or array.shape[0] == batch:
        return array
    if array.shape[0] != 1:
        raise MisuseError(f"input '{port.oip_name}' has {array.shape[0]} rows, expected 1 or those of --batch {batch}")
    _check(port, (batch, *array.shape[1:]), array.nbytes * batch)
    return np.repeat(array, batch, axis=0)


def default_shape(port: PortDescription, batch: int | None) -> tuple[int, ...]:
    """Choose the shape of an input: the wanted rows, and otherwise the smallest lengths that it takes, but never 0.

    Raises:
        MisuseError: If its rank is not known, or it does not take so many rows.
    """
    shape = port.partial_shape
    if shape.rank.is_dynamic:
        raise MisuseError(f"input '{port.oip_name}' takes any shape: give one with --shape {port.oip_name}=1,2,3")
    lengths = [_least(dimension) for dimension in shape]
    if batch is not None and lengths:
        lengths[0] = batch
    return tuple(lengths)


def advice_on_shapes(
    values: Mapping[int, Array], given: Sequence[str], shapes: Sequence[str], ports: Sequence[PortDescription]
) -> str:
    """Tell, where every inference failed, which shapes may be why: the smallest may be less than the model needs."""
    named = {*assign(given, ports), *assign(shapes, ports, "--shape")}
    chosen = [
        f"'{port.oip_name}' [{','.join(map(str, values[at].shape))}]"
        for at, port in enumerate(ports)
        if at not in named and any(dimension.is_dynamic for dimension in list(port.partial_shape)[1:])
    ]
    return f"; nobody gave a shape for {', '.join(chosen)}: try another with --shape" if chosen else ""


def random_value(port: PortDescription, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Make a random input: numbers from 0 to 1, or integers from 0 to 100.

    Raises:
        MisuseError: If the input does not take the shape, or takes no numbers.
    """
    if port.element_type == Type.string:
        raise MisuseError(f"input '{port.oip_name}' takes strings, which are not made up: give it with -i")
    refuse_packed(port)
    _check(port, shape, byte_size(shape, port))
    dtype = port.element_type.to_dtype()
    if port.element_type == Type.boolean:
        return random.integers(0, 2, shape).astype(dtype)
    if port.element_type.real:
        return random.random(shape).astype(dtype)
    return random.integers(0, 100, shape).astype(dtype)


def _check(port: PortDescription, shape: tuple[int, ...], size: int) -> None:
    lengths = ",".join(map(str, shape))
    if reason := why_too_large(size, port):
        raise MisuseError(f"input '{port.oip_name}' of shape [{lengths}] {reason}")
    if not port.partial_shape.compatible(PartialShape(list(shape))):
        raise MisuseError(f"input '{port.oip_name}' would have shape [{lengths}], expected {port.partial_shape}")


def _least(dimension: Dimension) -> int:
    return dimension.min_length if dimension.is_static else max(dimension.min_length, 1)


def _lengths(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.strip("[]()").split(",")]
    # No length has more digits, and Python refuses to convert very many.
    if not all(part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS for part in parts):
        raise MisuseError(f"--shape is '{text}', expected lengths such as 1,3,224,224")
    return tuple(int(part) for part in parts)
