"""Which jobs of a model may run as one inference, and how such a run is put together and split again.

Rows are what a model's first dimension counts. Jobs go together if their inputs are alike but for
the rows and they want the same outputs. Knows neither queues nor time; holds no state.

A job never waits for company while its model is idle: it runs at once, so one client alone is as
fast as without batching. Without a delay, what has piled up while the slots were busy goes
together. With one, fewer rows than are worth a run may wait for more where a slot is idle too, but
only while another run of the same model is under way, no longer than the delay, and not where one
of them would expire meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TypeAlias

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Work
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensor_checks import is_left_to_slot
from inferwire_server.core.tensors import Tensor, describe
from inferwire_server.errors import ServingError, invalid_input

Group: TypeAlias = Hashable
"""What jobs that may run together have in common."""


@dataclass(frozen=True, slots=True)
class Batching:
    """How the jobs of a model are put together: at most `max_size` rows, held back at most `max_delay_s`.

    Of the `preferred` sizes, a run takes the largest that the waiting rows fill.
    """

    max_size: int
    max_delay_s: float = 0.0
    preferred: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse sizes and delays that are none."""
        if self.max_size < 1:
            raise invalid_input(f"the largest batch is {self.max_size} rows, expected 1 or more")
        if not 0 <= self.max_delay_s < float("inf"):
            raise invalid_input(f"the longest delay of a batch is {self.max_delay_s} seconds, expected 0 or more")
        for size in self.preferred:
            if not 1 <= size <= self.max_size:
                raise invalid_input(f"a preferred batch is {size} rows, expected 1 to {self.max_size}")

    def group(self, work: Work) -> Group | None:
        """Say what work has to have in common with other work to run with it; None for what runs alone."""
        inputs = work.inputs
        if not inputs or not inputs[0].shape:
            return None
        rows = rows_of(work)
        if not 1 <= rows <= self.max_size:
            return None
        for tensor in inputs:
            shape = tensor.shape
            if not shape or shape[0] != rows or not _has_whole_rows(tensor.element_type, shape):
                return None
            if is_left_to_slot(tensor):
                # Strings that nobody has looked at may begin and end anywhere: they could become another's.
                return None
        return tuple([tensor.shape[1:] for tensor in inputs]), work.outputs

    def most_stacked(self, work: Work) -> int:
        """How many executions of a stack run together at the most."""
        rows = rows_of(work) // work.executions if work.inputs and work.inputs[0].shape else 0
        return max(1, self.max_size // rows) if rows else 1

    def is_worth_a_run(self, rows: int) -> bool:
        """Whether so many waiting rows need not wait for more."""
        return rows >= min(self.preferred, default=self.max_size)

    def rows_to_take(self, waiting: int) -> int:
        """Say how many of so many waiting rows the next run may take."""
        return max((size for size in self.preferred if size <= waiting), default=self.max_size)


def rows_run(works: Sequence[Work], batching: Batching) -> int:
    """Say how many rows an inference is counted by: at most a batch's, or callers could make up ever more sizes."""
    return max(1, min(sum([rows_of(work) for work in works]), batching.max_size))


def rows_of(work: Work) -> int:
    """Count the rows of work that may run with other work."""
    return work.inputs[0].shape[0]


def join(works: Sequence[Work]) -> Work:
    """Put work of one group together, row after row: the one copy of its inputs; none of a single piece of work."""
    if len(works) == 1:
        return works[0]
    columns = zip(*(work.inputs for work in works), strict=True)
    return Work(tuple(stack(tensors) for tensors in columns), works[0].outputs)


def split(outputs: Sequence[Tensor], rows: Sequence[int]) -> list[tuple[Tensor, ...]]:
    """Give each piece of work its rows of the outputs, without a copy.

    Raises:
        ServingError: INFERENCE_FAILED if an output has not a row for each row that went in, or none of whole bytes.
    """
    total = sum(rows)
    for tensor in outputs:
        if not tensor.shape or tensor.shape[0] != total:
            raise ServingError(
                Code.INFERENCE_FAILED,
                f"a run of {total} rows gave an output of shape {list(tensor.shape)}, expected {total} rows",
            )
        if not _has_whole_rows(tensor.element_type, tensor.shape):
            what = describe(tensor.element_type, tensor.shape)
            raise ServingError(Code.INFERENCE_FAILED, f"a run gave {what}, expected rows of whole bytes")
    if len(rows) == 1:
        return [tuple(outputs)]
    columns = [parts(tensor, rows) for tensor in outputs]
    return [tuple(column[index] for column in columns) for index in range(len(rows))]


def parts(tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
    """Cut a tensor into so many rows each, without a copy."""
    data, starts, tail = memoryview(tensor.data), _row_starts(tensor), tensor.shape[1:]
    ends = list(accumulate(rows))
    return [
        Tensor(tensor.element_type, (count, *tail), data[starts[end - count] : starts[end]])
        for count, end in zip(rows, ends, strict=True)
    ]


def stack(tensors: Sequence[Tensor]) -> Tensor:
    """Put the rows of tensors that are otherwise alike one behind the other, in a copy."""
    first = tensors[0]
    rows = sum(tensor.shape[0] for tensor in tensors)
    return Tensor(first.element_type, (rows, *first.shape[1:]), b"".join([tensor.data for tensor in tensors]))


def check_can_be_batched(spec: ModelSpec, batching: Batching) -> None:
    """Refuse a model that has no rows to put together.

    Raises:
        ServingError: MODEL_FAILED with the reason.
    """
    if spec.states:
        states = ", ".join(f"'{state}'" for state in spec.states)
        raise cannot_be_batched(spec, f"it keeps states ({states}), which belong to one caller")
    if not spec.inputs:
        raise cannot_be_batched(spec, "it has no input")
    ports = [*(("input", port) for port in spec.inputs), *(("output", port) for port in spec.outputs)]
    for kind, port in ports:
        if reason := _obstacle(port, batching.max_size, is_input=kind == "input"):
            raise cannot_be_batched(spec, f"{kind} '{port.oip_name}' {reason}")


def cannot_be_batched(spec: ModelSpec, reason: str) -> ServingError:
    """Say why a model's rows cannot go together."""
    return ServingError(Code.MODEL_FAILED, f"model '{spec.name}' cannot be batched: {reason}")


def _obstacle(port: PortSpec, max_size: int, *, is_input: bool) -> str:
    """Say why a port's tensors cannot be put together or split, if so."""
    if port.shape and all(dimension.is_static for dimension in port.shape[1:]):
        shape = tuple(dimension.min for dimension in port.shape)
        if not _has_whole_rows(port.element_type, shape):
            return f"has rows of {prod(shape[1:])} {port.element_type.name}, expected rows of whole bytes"
    if port.shape is None:
        return "has a shape of unknown rank, expected a first dimension that counts rows" if is_input else ""
    first = port.shape[0] if port.shape else Dimension(1, 1)
    if first.admits(1) and first.admits(max_size) and not (first.is_static or not port.shape):
        return ""
    return f"has shape {port.shape_text}, expected a first dimension that admits 1 to {max_size} rows"


def _row_starts(tensor: Tensor) -> Sequence[int]:
    """Say at which byte each row begins, and where the last one ends."""
    count = tensor.shape[0]
    if tensor.element_type.is_string:
        rows = strings.cut(memoryview(tensor.data), prod(tensor.shape[1:]), count)
        return [0, *accumulate(row.nbytes for row in rows)]
    size = tensor.byte_size // count
    return range(0, size * count + 1, size) if size else [0] * (count + 1)


def _has_whole_rows(element_type: ElementType, shape: Sequence[int]) -> bool:
    """Whether no byte has elements of two rows in it."""
    return element_type.unit_elements == 1 or prod(shape[1:]) % element_type.unit_elements == 0
