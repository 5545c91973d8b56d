"""Checks, at load, that a model keeps rows apart: the same rows must give the same outputs alone and together.

A first dimension that may be of any length does not prove that rows are independent: a model may
normalise over all of them. Such a model would answer one caller with another's data mixed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from inferwire_proto import bf16, strings
from inferwire_proto.element_types import ElementType
from inferwire_proto.errors import Code
from inferwire_proto.properties import Properties
from inferwire_server.core.scheduling.batching import Batching, join, split
from inferwire_server.core.scheduling.job import Work
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensors import Array, Tensor, numbers
from inferwire_server.engine.backend import Slot
from inferwire_server.engine.row_ports import cannot_be_batched, check_can_be_batched
from inferwire_server.errors import ServingError

_TOLERANCES = {"f64": 1e-6, "f32": 1e-4, "f16": 1e-2, "bf16": 4e-2}
"""How far a value may be off, as a part of the largest value in its row, by precision of the inference."""

_LEAST_SCALE = 0.1
"""The least scale that a row is measured by, as a part of the largest value of all rows."""

_TRIED_LENGTHS = (1, 8, 32, 64, 224)
"""The lengths that free dimensions are tried with, one after the other, until the model takes its input."""

_LARGEST_SAMPLE = 8
"""How many rows are enough to tell."""


def check_rows_are_independent(spec: ModelSpec, slot: Slot, batching: Batching, properties: Properties) -> None:
    """Run rows alone and together.

    Raises:
        ServingError: MODEL_FAILED if the model has no rows, mixes them, or cannot be tried.
    """
    check_can_be_batched(spec, batching)
    works, alone = _run_alone(spec, slot, batching)
    tolerance = _tolerance(properties)
    # An even and an odd number of rows: a model may mix rows in one of the two cases only.
    for count in sorted({count for count in (2, 3, len(works)) if 2 <= count <= len(works)}):
        try:
            joined = join(works[:count])
            together = split(slot.run(joined.inputs, joined.outputs), [1] * count)
        except ServingError as error:
            raise cannot_be_batched(spec, f"{count} rows alone run, together they do not: {error.message}") from error
        for port, expected, got in _columns(spec.outputs, alone[:count], together):
            if not _agree(expected, got, tolerance):
                raise cannot_be_batched(
                    spec, f"output '{port.oip_name}' of a row depends on the rows that it runs with: its rows are mixed"
                )


def _run_alone(spec: ModelSpec, slot: Slot, batching: Batching) -> tuple[list[Work], list[tuple[Tensor, ...]]]:
    """Run each of some made-up rows by itself, with the first of the tried lengths that the model takes."""
    wanted = tuple(range(len(spec.outputs)))
    refused = ServingError(Code.INTERNAL, "there are none of whole bytes")
    for length in _TRIED_LENGTHS:
        random = np.random.default_rng(length)
        # What leaks out of a row of large values shows best in one of small values.
        scales = [(0.01, 1.0)[index % 2] for index in range(min(batching.max_size, _LARGEST_SAMPLE))]
        works = [Work(tuple(_row(port, length, random, scale) for port in spec.inputs), wanted) for scale in scales]
        if batching.group(works[0]) is None:
            continue
        try:
            return works, [split(slot.run(work.inputs, wanted), [1])[0] for work in works]
        except ServingError as error:
            refused = error
    raise cannot_be_batched(spec, f"it could not be tried with made-up rows: {refused.message}")


def _row(port: PortSpec, length: int, random: np.random.Generator, scale: float) -> Tensor:
    """Make one row of values that any model can take: small and not negative."""
    shape = (1, *(_length(dimension, length) for dimension in (port.shape or ())[1:]))
    if port.element_type.is_string:
        words = [f"word {number:.3f}".encode() for number in random.random(shape).ravel()]
        return Tensor(port.element_type, shape, strings.pack(words))
    if port.element_type.is_packed:
        # Two small numbers in each byte where the type has four bits; in other packed types, some other numbers.
        size = port.element_type.byte_size(shape)
        return Tensor(port.element_type, shape, bytes(byte & 0x33 for byte in random.bytes(size)))
    return Tensor(port.element_type, shape, _values(port.element_type, scale * random.random(shape)))


def _length(dimension: Dimension, wanted: int) -> int:
    longest = wanted if dimension.max is None else min(wanted, dimension.max)
    return max(longest, dimension.min)


def _values(element_type: ElementType, uniform: Array) -> bytes:
    """Encode numbers from 0 to 1 as an element type: as they are, or scaled to small whole numbers."""
    if element_type.name == "bf16":
        return bf16.from_float32(uniform.astype(np.float32)).tobytes()
    if element_type.name == "boolean":
        return (uniform < 0.5).tobytes()
    if element_type.name.startswith("f8"):
        # Their bytes grow with their values: those of the lower half are not negative, and finite.
        return (uniform * 64).astype(np.uint8).tobytes()
    is_whole = element_type.storage_dtype.kind in "iu"
    return (uniform * 100 if is_whole else uniform).astype(element_type.storage_dtype).tobytes()


def _columns(
    ports: Sequence[PortSpec], alone: Sequence[tuple[Tensor, ...]], together: Sequence[tuple[Tensor, ...]]
) -> Iterable[tuple[PortSpec, list[Tensor], list[Tensor]]]:
    """Give each output with its rows alone and together."""
    for index, port in enumerate(ports):
        yield port, [row[index] for row in alone], [row[index] for row in together]


def _agree(expected: Sequence[Tensor], got: Sequence[Tensor], tolerance: float) -> bool:
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in got]:
        return False
    element_type = expected[0].element_type
    has_no_numbers = element_type.is_string or element_type.is_packed
    if has_no_numbers or (element_type.storage_dtype.kind != "f" and not element_type.name.startswith("f8")):
        return [bytes(tensor.data) for tensor in expected] == [bytes(tensor.data) for tensor in got]
    pairs = zip(expected, got, strict=True)
    rows = [(numbers(row).astype(np.float64), numbers(other).astype(np.float64)) for row, other in pairs]
    scales = [float(np.max(np.abs(row), initial=0.0, where=np.isfinite(row))) for row, _ in rows]
    # Each row is measured by its own scale, but not by less than this: a row of values near zero would be measured by
    # its rounding errors.
    least = max(scales) * _LEAST_SCALE
    return all(
        np.allclose(other, row, rtol=0.0, atol=tolerance * max(scale, least), equal_nan=True)
        for (row, other), scale in zip(rows, scales, strict=True)
    )


def _tolerance(properties: Properties) -> float:
    """Give the tolerance of a precision; the widest where the model does not say its own."""
    precision = properties.get("INFERENCE_PRECISION_HINT")
    name = precision.name if isinstance(precision, ElementType) else ""
    return _TOLERANCES.get(name, max(_TOLERANCES.values()))
