"""Which jobs of a model may run as one inference, and how such a run is put together and split again.

Rows are what a model's first dimension counts. Jobs go together if their inputs are alike but for
the rows and they want the same outputs. Knows neither queues nor time; holds no state.

A job never waits for others while its model is idle: it runs at once, so that one client alone is
as fast as without batching. Without a delay, jobs that have piled up while the slots were busy go
together. With a delay, rows that are too few for a run may wait for more although a slot is idle,
but only while another run of the same model is under way, no longer than the delay, and not where
one of the jobs would expire meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Work
from inferwire_server.core.scheduling.rows import concat_rows, count_rows, has_whole_rows, slice_rows
from inferwire_server.core.tensor_checks import is_left_to_slot
from inferwire_server.core.tensors import Tensor, describe
from inferwire_server.errors import ServingError, invalid_input

Group: TypeAlias = Hashable
"""What jobs that may run together have in common."""


@dataclass(frozen=True, slots=True)
class Batching:
    """How the jobs of a model run together: at most `max_size` rows, held back for at most `max_delay_s`.

    Where there are `preferred` sizes, a run has the largest of them that the waiting rows fill.
    """

    max_size: int
    max_delay_s: float = 0.0
    preferred: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse sizes and delays that make no sense."""
        if self.max_size < 1:
            raise invalid_input(f"the largest batch is {self.max_size} rows, expected 1 or more")
        if not 0 <= self.max_delay_s < float("inf"):
            raise invalid_input(f"the longest delay of a batch is {self.max_delay_s} seconds, expected 0 or more")
        for size in self.preferred:
            if not 1 <= size <= self.max_size:
                raise invalid_input(f"a preferred batch is {size} rows, expected 1 to {self.max_size}")

    def group(self, work: Work) -> Group | None:
        """Give what work has in common with the work it may run with; None for work that runs alone."""
        inputs = work.inputs
        if not inputs or not inputs[0].shape:
            return None
        rows = count_rows(work)
        if not 1 <= rows <= self.max_size:
            return None
        for tensor in inputs:
            shape = tensor.shape
            if not shape or shape[0] != rows or not has_whole_rows(tensor.element_type, shape):
                return None
            if is_left_to_slot(tensor):
                # Nothing has checked these elements yet: joined with another job's, wrong lengths could mix the two.
                return None
        return tuple([tensor.shape[1:] for tensor in inputs]), work.outputs

    def most_stacked(self, work: Work) -> int:
        """The most executions of a stack that may run together."""
        rows = count_rows(work) // work.executions if work.inputs and work.inputs[0].shape else 0
        return max(1, self.max_size // rows) if rows else 1

    def is_worth_a_run(self, rows: int) -> bool:
        """Whether so many waiting rows are enough for a run."""
        return rows >= min(self.preferred, default=self.max_size)

    def rows_to_take(self, waiting: int) -> int:
        """Give the most rows that the next run may take when so many are waiting."""
        return max((size for size in self.preferred if size <= waiting), default=self.max_size)


def rows_run(works: Sequence[Work], batching: Batching) -> int:
    """Give the rows that an inference is counted under: at most a batch's.

    Each number of rows has a counter of its own, of which callers could otherwise make ever more.
    """
    return max(1, min(sum([count_rows(work) for work in works]), batching.max_size))


def join(works: Sequence[Work]) -> Work:
    """Put work of one group together, row after row. This copies the inputs, once; a single piece is given as it is."""
    if len(works) == 1:
        return works[0]
    columns = zip(*(work.inputs for work in works), strict=True)
    return Work(tuple(concat_rows(tensors) for tensors in columns), works[0].outputs)


def split(outputs: Sequence[Tensor], rows: Sequence[int]) -> list[tuple[Tensor, ...]]:
    """Split outputs into those of each piece of work, by its number of rows, without a copy.

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
        if not has_whole_rows(tensor.element_type, tensor.shape):
            what = describe(tensor.element_type, tensor.shape)
            raise ServingError(Code.INFERENCE_FAILED, f"a run gave {what}, expected rows of whole bytes")
    if len(rows) == 1:
        return [tuple(outputs)]
    columns = [slice_rows(tensor, rows) for tensor in outputs]
    return [tuple(column[index] for column in columns) for index in range(len(rows))]
