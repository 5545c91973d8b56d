"""How a slot runs its jobs: as one inference, and each execution alone if that fails.

The calls block. This module knows neither threads nor the event loop. Whatever a slot raises becomes an outcome,
because a slot whose run never reports would stay busy for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TypeAlias, TypeVar, TypeVarTuple

from inferwire_proto.errors import Code
from inferwire_server.bugs import logged_failure
from inferwire_server.core.scheduling.batching import join, split
from inferwire_server.core.scheduling.job import Apart, Job, Outcome, Result, Transform, Transforms, Work
from inferwire_server.core.scheduling.rows import count_rows
from inferwire_server.core.scheduling.stacks import DROPPED, merge_results, split_into_executions
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.errors import ServingError, without_values

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_Held: TypeAlias = tuple[Job, Work]
"""A job and its work. The work is held here because a job drops its own when it is cancelled."""


class SlotRun:
    """Jobs that a slot is to run, and their work.

    Attributes:
        outcomes: What each job gave, once all steps are done.
        fell_apart: Whether the jobs failed as one inference, and each execution then ran alone.
        slot: What runs them.
    """

    fell_apart = False

    def __init__(self, slot: Slot, jobs: tuple[Job, ...]) -> None:
        self.outcomes: Sequence[Outcome] = ()
        self.slot = slot
        self._held: Sequence[_Held] = [(job, job.work) for job in jobs]

    def steps(self) -> Iterator[None]:
        """Run one inference per step. Raises nothing: an error outside an inference becomes every job's outcome."""
        try:
            job, work = self._held[0]
            if len(self._held) == 1 and work.executions == 1:
                self.outcomes = [self._run_alone(job, 0, work)]
            else:
                yield from self._run_several()
        except GeneratorExit:
            raise  # the event loop has ended: there is nothing to report to
        except BaseException as error:  # noqa: BLE001 - a slot that does not report is lost
            self.fail(self._failure(error))

    def fail(self, error: ServingError) -> None:
        """Give each job this error as its outcome, without a run."""
        self.outcomes = [error] * len(self._held)

    def go_on_in(self, slot: Slot) -> None:
        """Have another slot run the remaining steps. Called between two steps, by the code that iterates over them."""
        self.slot = slot

    def cancel(self) -> None:
        """Stop the inference that runs, if the device can."""
        self.slot.cancel()

    @property
    def given(self) -> list[Work]:
        """The work that gave outputs. Work that accesses states does not count."""
        given: list[Work] = []
        for position, (_, work) in enumerate(self._held):
            outcome = self.outcomes[position]
            if isinstance(outcome, tuple):
                if work.states is None:
                    given.append(work)
            elif isinstance(outcome, Apart):
                pairs = zip(split_into_executions(work), outcome.results, strict=True)
                given += [execution for execution, result in pairs if isinstance(result, tuple)]
        return given

    def _run_several(self) -> Iterator[None]:
        """Run the jobs as one inference; if they may not run so, or it fails, run each execution alone.

        Jobs that were cancelled meanwhile are left out.
        """
        wanted = [held for held in self._held if held[0].error is None]
        _, first = self._held[0]
        if not first.one_by_one and sum([work.executions for _, work in wanted]) > 1:
            found = self._run_together(wanted)
            yield
            if found is not None:
                self.outcomes = found if len(found) == len(self._held) else self._with_those_that_left(wanted, found)
                return
            self.fell_apart = True
        outcomes: list[Outcome] = []
        for job, work in self._held:
            outcomes.append((yield from self._run_apart(job, work)))
        self.outcomes = outcomes

    def _run_apart(self, job: Job, work: Work) -> Generator[None, None, Outcome]:
        """Run each execution of a job alone."""
        results: list[Result] = []
        for position, execution in enumerate(split_into_executions(work)):
            results.append(self._run_alone(job, position, execution))
            yield
        return self._outcome(merge_results, results)

    def _run_alone(self, job: Job, position: int, work: Work) -> Result:
        """Run the execution at this position in a job, unless it was dropped; `work` is that of the execution."""
        if job.error is not None or position in job.dropped:
            return job.error or DROPPED
        return self._outcome(self._run, work, ((job, work),), _transforms_for(job, work))

    def _run_together(self, wanted: Sequence[_Held]) -> Sequence[Result] | None:
        """Run jobs as one inference; None if it failed. Each is then to run alone, so that only bad inputs fail."""
        works = [work for _, work in wanted]
        outcome = self._outcome(
            lambda: split(self._run(join(list(map(_in_one_piece, works))), wanted), list(map(count_rows, works)))
        )
        if not isinstance(outcome, ServingError):
            return [self._for_caller(job, work, outcome[position]) for position, (job, work) in enumerate(wanted)]
        return [outcome] * len(works) if outcome.code is Code.CANCELLED else None

    def _with_those_that_left(self, wanted: Sequence[_Held], found: Sequence[Result]) -> list[Outcome]:
        """Give each job's outcome: its result if it ran, its error if it was cancelled before the run."""
        results = {job: result for (job, _), result in zip(wanted, found, strict=True)}
        return [results.get(job, job.error or ()) for job, _ in self._held]

    def _run(self, work: Work, wanted: Sequence[_Held], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run work as one inference for the jobs that want it, or access the slot's states."""
        if work.states is not None:
            return self.slot.access(work.states)
        try:
            return self.slot.run(_in_one_piece(work).inputs, work.outputs, transforms)
        finally:
            for _, each in wanted:
                if each.is_profiled:
                    self._profile(wanted)
                    break

    def _for_caller(self, job: Job, work: Work, outputs: tuple[Tensor, ...]) -> Result:
        """Turn a job's part of a shared run's outputs into what its caller gets."""
        return self._outcome(_transformed, job, work, outputs) if work.transforms or work.copied else outputs

    def _profile(self, wanted: Sequence[_Held]) -> None:
        profile = self.slot.profile()
        for job, work in wanted:
            if work.is_profiled:
                job.take_profile(profile)

    def _outcome(self, call: Callable[[*Ts], T], *args: *Ts) -> T | ServingError:
        try:
            return call(*args)
        except ServingError as error:
            return without_values(error)
        except BaseException as error:  # noqa: BLE001 - a slot that does not report is lost
            return self._failure(error)

    def _failure(self, error: BaseException) -> ServingError:
        return logged_failure("a slot", error, model=str(self._held[0][0].model))


def _in_one_piece(work: Work) -> Work:
    """Copy inputs that are boxes of larger tensors: only now, and not while their jobs wait."""
    for tensor in work.inputs:
        if not tensor.is_in_one_piece:
            return work._replace(inputs=tuple([each.in_one_piece() for each in work.inputs]))
    return work


def _transformed(job: Job, work: Work, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Transform outputs, and copy those that outlive the job: a view would keep the memory of the whole run."""
    if work.transforms:
        pairs = zip(_transforms_for(job, work), outputs, strict=True)
        outputs = tuple([tensor if transform is None else transform(tensor) for transform, tensor in pairs])
    ports = zip(work.outputs, outputs, strict=True)
    return tuple([tensor.on_its_own() if port in work.copied else tensor for port, tensor in ports])


def _transforms_for(job: Job, work: Work) -> Transforms:
    return work.transforms and tuple(transform and partial(_transform, job, transform) for transform in work.transforms)


def _transform(job: Job, transform: Transform, tensor: Tensor) -> Tensor:
    """Transform an output, unless its job was cancelled: the memory it would be written to may be reused by now."""
    if job.error is not None:
        raise job.error
    return transform(tensor)
