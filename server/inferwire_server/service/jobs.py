"""Named jobs: inferences that their callers start, wait for, collect and cancel by an id."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from inferwire_server.core.callers import Caller
from inferwire_server.core.ledger import JobLedger, Kept
from inferwire_server.core.scheduling.job import Job
from inferwire_server.errors import invalid_input
from inferwire_server.service.inference import InferenceService
from inferwire_server.service.values import Inference

LONGEST_WAIT_S = 60.0
"""How long one call may wait for a named job."""

_BYTES_OF_A_JOB = 4096
"""What a kept job counts for besides its outputs' bytes: many small results take memory, too."""

_BYTES_OF_A_LAYER = 512
"""What each layer of a kept job's profile counts for."""


@dataclass(frozen=True, slots=True)
class NamedJob:
    """A job that its caller asks for again, and the future that waits for its end."""

    job: Job
    end: asyncio.Future[None]


class JobService:
    """Keeps the jobs that callers name, until they are released or forgotten."""

    def __init__(self, inference: InferenceService, ledger: JobLedger[NamedJob]) -> None:
        self._inference = inference
        self._ledger = ledger
        self._is_expiring = False

    def __repr__(self) -> str:
        return f"<JobService: {len(self._ledger)} named jobs, {self._ledger.kept.jobs} of them ended>"

    @property
    def kept(self) -> Kept:
        """What is kept of named jobs that have ended."""
        return self._ledger.kept

    def start(self, inference: Inference, caller: Caller | None = None) -> str:
        """Queue an inference as a named job and give its name.

        Raises:
            ServingError: If it was not admitted.
        """
        loop = asyncio.get_running_loop()
        end: asyncio.Future[None] = loop.create_future()

        def wake_and_keep(job: Job) -> None:
            end.set_result(None)
            self._ledger.ended(job_id, _byte_size(job), loop.time())
            if not self._is_expiring:
                self._expire_later()

        job = self._inference.submit(inference, wake_and_keep, caller=caller, is_named=True)
        job_id = self._ledger.add(NamedJob(job, end))
        return job_id

    async def wait(self, job_id: str, timeout_s: float) -> Job:
        """Wait until a job has ended or the time is up; its state says which.

        Raises:
            ServingError: JOB_NOT_FOUND.
        """
        named = self._ledger.get(job_id)
        if not named.end.done() and timeout_s > 0:
            await asyncio.wait([named.end], timeout=timeout_s)
        return named.job

    def result(self, job_id: str) -> Job:
        """Give an ended job.

        Raises:
            ServingError: JOB_NOT_FOUND, or INVALID_INPUT while it still runs.
        """
        job = self._ledger.get(job_id).job
        if not job.state.is_terminal:
            raise invalid_input(f"job '{job_id}' is {job.state}, expected one that has ended: wait for it")
        return job

    def release(self, job_id: str) -> None:
        """Forget a job; one that is not there is forgotten already."""
        self._ledger.release(job_id)

    def cancel(self, job_id: str) -> Job:
        """Cancel a job by its name.

        Raises:
            ServingError: JOB_NOT_FOUND.
        """
        job = self._ledger.get(job_id).job
        self._inference.cancel(job, "the job was cancelled")
        return job

    def _expire_later(self) -> None:
        """Set the one timer for all jobs that are to be forgotten: for when the first of them is due."""
        due = self._ledger.next_expiry
        self._is_expiring = due is not None
        if due is not None:
            asyncio.get_running_loop().call_at(due, self._expire, due)

    def _expire(self, due: float) -> None:
        # A timer may go off a moment early; by its own time the job is due.
        self._ledger.expire(max(due, asyncio.get_running_loop().time()))
        self._expire_later()


def _byte_size(job: Job) -> int:
    """Say how many bytes an ended job counts for while it is kept."""
    outputs = sum([output.byte_size for output in job.outputs])
    return _BYTES_OF_A_JOB + _BYTES_OF_A_LAYER * len(job.profile) + outputs
