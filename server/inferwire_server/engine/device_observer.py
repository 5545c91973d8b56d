"""Who is told of what happens on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from inferwire_server.core.job import Job, Work
from inferwire_server.core.lane import ModelKey


class Observer(Protocol):
    """Is told of what happens on a device; the metrics are.

    A stack is one job that counts as its executions; `core.stacks.ends` says how they ended.
    """

    def job_submitted(self, device: str, model: ModelKey, count: int) -> None:
        """A job of so many executions asks to be admitted: it is to be refused, or to end."""
        ...

    def job_refused(self, device: str, model: ModelKey, count: int) -> None:
        """A job of so many executions was not admitted."""
        ...

    def inference_started(self, device: str, model: ModelKey, count: int) -> None:
        """So many executions start to run as one inference."""
        ...

    def inference_ended(self, device: str, model: ModelKey, works: Sequence[Work], seconds: float) -> None:
        """An inference that took so long has given the outputs of these works."""
        ...

    def job_ended(self, device: str, job: Job) -> None:
        """A job has ended, in whatever way."""
        ...

    def job_answered(self, device: str, job: Job, wire_s: float, count: int) -> None:
        """So many of an ended job's executions are answered; reading the request and writing the answer took that."""
        ...

    def model_gone(self, model: ModelKey) -> None:
        """A model has run its last job."""
        ...
