"""Jobs that callers name by id: those that run, and for a while those that have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from inferwire_proto.errors import Code
from inferwire_server.core.job import Job
from inferwire_server.errors import ServingError


class JobLedger:
    """Named jobs. One that has ended is forgotten when released, or `keep_s` after its end."""

    def __init__(self, new_id: Callable[[], str], keep_s: float) -> None:
        self._new_id = new_id
        self._keep_s = keep_s
        self._jobs: dict[str, Job] = {}
        self._ended: deque[tuple[float, str]] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> str:
        """Give a job a name."""
        job_id = self._new_id()
        self._jobs[job_id] = job
        return job_id

    def get(self, job_id: str) -> Job:
        """Give the job of this name.

        Raises:
            ServingError: JOB_NOT_FOUND if there is none, or it was forgotten.
        """
        job = self._jobs.get(job_id)
        if job is None:
            raise ServingError(
                Code.JOB_NOT_FOUND,
                f"job '{job_id}' is not known: it never was, was released, or ended too long ago",
            )
        return job

    def release(self, job_id: str) -> None:
        """Forget a job; one that is not there is forgotten already."""
        self._jobs.pop(job_id, None)

    def ended(self, job_id: str, now: float) -> None:
        """Start the time after which an ended job is forgotten."""
        self._ended.append((now + self._keep_s, job_id))

    @property
    def next_expiry(self) -> float | None:
        """When the next job is forgotten."""
        return self._ended[0][0] if self._ended else None

    def expire(self, now: float) -> None:
        """Forget the jobs that have ended long enough ago."""
        while self._ended and self._ended[0][0] <= now:
            self.release(self._ended.popleft()[1])
