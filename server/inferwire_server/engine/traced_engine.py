"""An engine whose inferences are part of traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.scheduling.tally import TallyOf
from inferwire_server.engine.backend import Backend
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError


class Trace(Protocol):
    """The trace that an inference is part of."""

    def end(self, job: Job) -> None:
        """Record a job that has ended."""
        ...

    def refuse(self, model: Model, submission: Submission, error: ServingError) -> None:
        """Record that a job was not admitted."""
        ...


class TracedEngine(Engine):
    """Records each inference in the trace of whoever submits it, which `current` gives."""

    def __init__(
        self,
        backend: Backend,
        queue: QueueOptions,
        tally_of: TallyOf,
        clock: Callable[[], float],
        *,
        current: Callable[[], Trace],
    ) -> None:
        super().__init__(backend, queue, tally_of, clock)
        self._current = current

    def submit(
        self, model: Model, submission: Submission, on_end: Callable[[Job], Any], *, at_once: bool = False
    ) -> Job:
        """Queue a job as an engine does, and record what becomes of it unless it but reads or writes states."""
        if submission.work.states is not None:
            return super().submit(model, submission, on_end, at_once=at_once)
        trace = self._current()

        def ended(job: Job) -> None:
            try:
                on_end(job)
            finally:
                trace.end(job)

        try:
            return super().submit(model, submission, ended, at_once=at_once)
        except ServingError as refusal:
            trace.refuse(model, submission, refusal)
            raise
