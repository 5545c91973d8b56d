"""Stacks: several executions that are one job, and what each of them gave.

A stack is work of more than one execution: equal shapes, equal outputs, the rows of one behind those
of the other. It waits, runs and is answered as one. Yet one execution may be dropped while the others
go on, and if the executions fail together, each is run by itself. If the model is not batched, a slot
runs them one by one. Holds no state; the scheduler changes jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Apart, Job, Outcome, Result, Work, outcome_of
from inferwire_server.core.scheduling.rows import concat_rows, count_rows, slice_rows
from inferwire_server.core.tensors import Shapes, Tensor
from inferwire_server.errors import ServingError

DROPPED = ServingError(Code.CANCELLED, "the execution was cancelled")
"""What a dropped execution gives."""


def split_stack(work: Work, size: int) -> list[Work]:
    """Split a stack into stacks of `size` executions, and one of the rest, without a copy."""
    if work.executions <= size:
        return [work]
    sizes = [min(size, work.executions - start) for start in range(0, work.executions, size)]
    of_each = work.carried_bytes // work.executions
    return [
        work._replace(inputs=inputs, executions=executions, carried_bytes=executions * of_each)
        for inputs, executions in zip(_split_all(work.inputs, work.executions, sizes), sizes, strict=True)
    ]


def split_into_executions(work: Work) -> list[Work]:
    """Split work into that of each execution, without a copy."""
    return split_stack(work, 1)


def inference_shapes(works: Sequence[Work]) -> Shapes:
    """Give the shapes of the inputs when all this work runs as one inference, or of each inference if one by one."""
    first = works[0]
    if len(works) > 1:
        rows = sum([count_rows(work) for work in works])
        return tuple([(rows, *tensor.shape[1:]) for tensor in first.inputs])
    if first.one_by_one and first.executions > 1:
        return tuple([(tensor.shape[0] // first.executions, *tensor.shape[1:]) for tensor in first.inputs])
    return tuple([tensor.shape for tensor in first.inputs])


def merge_results(given: Sequence[Result]) -> Outcome:
    """Merge what each execution of a job gave: into outputs with the rows of all, where that is possible."""
    if len(given) == 1:
        return given[0]
    outputs = [result for result in given if not isinstance(result, ServingError)]
    columns = list(zip(*outputs, strict=True))
    if len(outputs) < len(given) or not all(_are_alike(column) for column in columns):
        return Apart(tuple(given))
    return tuple(concat_rows(column) for column in columns)


def is_whole(job: Job) -> bool:
    """Whether an ended job's own outputs or error are those of all its executions."""
    return not job.apart and not job.dropped


def results(job: Job) -> Sequence[Result]:
    """Give the result of each execution of an ended job."""
    given = job.apart or _results_with_dropped(job)
    return [DROPPED if index in job.dropped else result for index, result in enumerate(given)]


def count_ends(job: Job) -> Mapping[str, int]:
    """Count an ended job's executions by how they ended."""
    if is_whole(job):
        return {job.outcome: job.work.executions}
    return Counter(map(outcome_of, results(job)))


def _results_with_dropped(job: Job) -> Sequence[Result]:
    """Give each execution its part of an ended job's outputs or error, as if none had been dropped."""
    executions = job.work.executions
    if job.error is not None:
        return [job.error] * executions
    return [job.outputs] if executions == 1 else _split_all(job.outputs, executions, [1] * executions)


def _split_all(tensors: Sequence[Tensor], executions: int, sizes: Sequence[int]) -> list[tuple[Tensor, ...]]:
    """Split the tensors of so many executions into those of stacks of these sizes."""
    columns = [_split_tensor(tensor, executions, sizes) for tensor in tensors]
    return list(zip(*columns, strict=True)) if columns else [()] * len(sizes)


def _split_tensor(tensor: Tensor, executions: int, sizes: Sequence[int]) -> list[Tensor]:
    rows, tail = tensor.shape[0] // executions, tensor.shape[1:]
    # In a packed type, the elements of one execution fill whole bytes, but those of one row need not.
    pieces = slice_rows(tensor._replace(shape=(executions, rows, *tail)), sizes)
    return [piece._replace(shape=(rows * size, *tail)) for piece, size in zip(pieces, sizes, strict=True)]


def _are_alike(tensors: Sequence[Tensor]) -> bool:
    """Whether tensors can be put together so that they can be split again."""
    first = tensors[0]
    is_whole_bytes = prod(first.shape) % first.element_type.unit_elements == 0
    return bool(first.shape) and is_whole_bytes and all(tensor.shape == first.shape for tensor in tensors)
