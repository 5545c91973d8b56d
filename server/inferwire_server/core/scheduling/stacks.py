"""Several executions that are one job: how they are put together, and told apart where one has a fate of its own.

A stack is work of more than one execution: equal shapes, equal outputs, the rows of one behind those
of the other. It waits, runs and is answered as one. Its executions are still each their caller's: one
may be dropped while the others go on, and where they fail together each is run by itself. Where a model
runs no rows together, a slot runs them one by one. Holds no state; the scheduler changes jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.batching import parts, rows_of, stack
from inferwire_server.core.scheduling.job import Apart, Job, JobState, Outcome, Result, Work, state_of
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

DROPPED = ServingError(Code.CANCELLED, "the execution was cancelled")
"""What an execution gives that was dropped."""


def cut(work: Work, size: int) -> list[Work]:
    """Take a stack apart into stacks of so many executions, and one of the rest, without a copy."""
    if work.executions <= size:
        return [work]
    counts = [min(size, work.executions - start) for start in range(0, work.executions, size)]
    return [
        work._replace(inputs=inputs, executions=count)
        for inputs, count in zip(_divided(work.inputs, work.executions, counts), counts, strict=True)
    ]


def unstacked(work: Work) -> list[Work]:
    """Take work apart into that of each execution, without a copy."""
    return cut(work, 1)


def inference_shapes(works: Sequence[Work]) -> tuple[tuple[int, ...], ...]:
    """Say which shapes the inputs have of the inference that this work is, or of each where it runs one by one."""
    first = works[0]
    if len(works) > 1:
        rows = sum([rows_of(work) for work in works])
        return tuple([(rows, *tensor.shape[1:]) for tensor in first.inputs])
    if first.one_by_one and first.executions > 1:
        return tuple([(tensor.shape[0] // first.executions, *tensor.shape[1:]) for tensor in first.inputs])
    return tuple([tensor.shape for tensor in first.inputs])


def together(given: Sequence[Result]) -> Outcome:
    """Say what a job gave whose executions gave these, one by one: outputs with the rows of all where that can be."""
    if len(given) == 1:
        return given[0]
    outputs = [result for result in given if not isinstance(result, ServingError)]
    columns = list(zip(*outputs, strict=True))
    if len(outputs) < len(given) or not all(_are_alike(column) for column in columns):
        return Apart(tuple(given))
    return tuple(stack(column) for column in columns)


def is_whole(job: Job) -> bool:
    """Whether all executions of an ended job gave the same: what the job has."""
    return not job.apart and not job.dropped


def results(job: Job) -> Sequence[Result]:
    """Say what each execution of an ended job gave."""
    given = job.apart or _each(job)
    return [DROPPED if index in job.dropped else result for index, result in enumerate(given)]


def ends(job: Job) -> Mapping[JobState, int]:
    """Count an ended job's executions by how they ended."""
    if is_whole(job):
        return {job.state: job.work.executions}
    return Counter(map(state_of, results(job)))


def _each(job: Job) -> Sequence[Result]:
    if job.error is not None:
        return [job.error] * job.work.executions
    return (
        [job.outputs]
        if job.work.executions == 1
        else _divided(job.outputs, job.work.executions, [1] * job.work.executions)
    )


def _divided(tensors: Sequence[Tensor], count: int, counts: Sequence[int]) -> list[tuple[Tensor, ...]]:
    """Give the tensors of so many executions to stacks of these sizes."""
    columns = [_divide(tensor, count, counts) for tensor in tensors]
    return list(zip(*columns, strict=True)) if columns else [()] * len(counts)


def _divide(tensor: Tensor, count: int, counts: Sequence[int]) -> list[Tensor]:
    rows, tail = tensor.shape[0] // count, tensor.shape[1:]
    # Of packed types only those of an execution need be whole bytes, not each row.
    pieces = parts(tensor._replace(shape=(count, rows, *tail)), counts)
    return [piece._replace(shape=(rows * size, *tail)) for piece, size in zip(pieces, counts, strict=True)]


def _are_alike(tensors: Sequence[Tensor]) -> bool:
    """Whether tensors can be put together, and come apart again."""
    first = tensors[0]
    is_whole_bytes = prod(first.shape) % first.element_type.unit_elements == 0
    return bool(first.shape) and is_whole_bytes and all(tensor.shape == first.shape for tensor in tensors)
