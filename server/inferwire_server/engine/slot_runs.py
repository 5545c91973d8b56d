"""What a slot's thread does with jobs: runs them as one inference, and each alone if that fails.

Blocks, and knows nothing of the loop. Whatever a slot raises is an outcome: a thread that did
not report would lose its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from inferwire_proto.errors import Code
from inferwire_server.core.batching import join, rows_of, split
from inferwire_server.core.job import Job, Outcome, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.errors import ServingError

T = TypeVar("T")


class SlotRun:
    """Jobs that a slot is to run. Holds their work: a job lets go of its own when it is cancelled."""

    def __init__(self, slot: Slot, jobs: tuple[Job, ...]) -> None:
        self._slot = slot
        self._jobs = jobs
        self._works = [job.work for job in jobs]

    def __call__(self) -> list[Outcome]:
        """Give each job its outcome. Jobs that were cancelled on the way here have nothing left to run."""
        if len(self._jobs) == 1:
            return [self._run_alone(0)]
        wanted = [index for index, job in enumerate(self._jobs) if job.error is None]
        together = self._run_together(wanted) if len(wanted) > 1 else None
        if together is None:
            return [self._run_alone(index) for index in range(len(self._jobs))]
        outcomes: list[Outcome] = [job.error or () for job in self._jobs]
        for index, outcome in zip(wanted, together, strict=True):
            outcomes[index] = outcome
        return outcomes

    def given(self, outcomes: Sequence[Outcome]) -> list[Work]:
        """List the work that its outcomes have the outputs of; looking at states is none."""
        return [
            work
            for work, outcome in zip(self._works, outcomes, strict=True)
            if work.states is None and not isinstance(outcome, ServingError)
        ]

    def _run_alone(self, index: int) -> Outcome:
        error = self._jobs[index].error
        return error if error is not None else _outcome(lambda: self._run(self._works[index], [index]))

    def _run_together(self, wanted: Sequence[int]) -> Sequence[Outcome] | None:
        """Run several; None if that failed and each is to run alone, so that one bad input fails alone."""
        works = [self._works[index] for index in wanted]
        outcome = _outcome(lambda: split(self._run(join(works), wanted), [rows_of(work) for work in works]))
        if not isinstance(outcome, ServingError):
            return outcome
        return [outcome] * len(works) if outcome.code is Code.CANCELLED else None

    def _run(self, work: Work, indices: Sequence[int]) -> tuple[Tensor, ...]:
        if work.states is not None:
            return self._slot.access(work.states)
        try:
            return self._slot.run(work.inputs, work.outputs)
        finally:
            profiled = [self._jobs[index] for index in indices if self._works[index].is_profiled]
            if profiled:
                self._profile(profiled)

    def _profile(self, jobs: Sequence[Job]) -> None:
        profile = self._slot.profile()
        for job in jobs:
            job.profile = profile


def _outcome(call: Callable[[], T]) -> T | ServingError:
    try:
        return call()
    except ServingError as error:
        return error
    except BaseException as error:  # noqa: BLE001 - a slot that does not report is lost
        return ServingError(Code.INTERNAL, f"the slot raised {type(error).__name__}: {error}")
