"""Several executions that are one job: how they are told apart where one of them has a fate of its own.

A stack is work of more than one execution: equal shapes, equal outputs, the rows of one behind those
of the other. It waits, runs and is answered as one. Its executions are still each their caller's: one
may be dropped while the others go on, and where they fail together each is run by itself. Holds no
state; the scheduler changes jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from inferwire_proto.errors import Code
from inferwire_server.core.batching import Batching, rows_of, split
from inferwire_server.core.job import Job, JobState, Result, Work, state_of
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

DROPPED = ServingError(Code.CANCELLED, "the execution was cancelled")
"""What an execution gives that was dropped."""


def may_be_one_job(work: Work, batching: Batching | None) -> bool:
    """Whether a model that batches so takes work of several executions as it is."""
    return batching is not None and not work.is_profiled and batching.group(work) is not None


def executions(work: Work) -> list[Work]:
    """Take work apart into that of each execution, without a copy."""
    if work.count == 1:
        return [work]
    return [Work(inputs, work.outputs) for inputs in _each(work.inputs, rows_of(work), work.count)]


def is_whole(job: Job) -> bool:
    """Whether all executions of an ended job gave the same: what the job has."""
    return not job.apart and not job.dropped


def results(job: Job) -> Sequence[Result]:
    """Say what each execution of an ended job gave."""
    given = job.apart or _together(job)
    return [DROPPED if index in job.dropped else result for index, result in enumerate(given)]


def ends(job: Job) -> Mapping[JobState, int]:
    """Count an ended job's executions by how they ended."""
    if is_whole(job):
        return {job.state: job.count}
    return Counter(map(state_of, results(job)))


def _together(job: Job) -> Sequence[Result]:
    if job.error is not None:
        return [job.error] * job.count
    if job.count == 1 or not job.outputs:
        return [job.outputs] * job.count
    return _each(job.outputs, job.outputs[0].shape[0], job.count)


def _each(tensors: Sequence[Tensor], rows: int, count: int) -> list[tuple[Tensor, ...]]:
    return split(tensors, [rows // count] * count)
