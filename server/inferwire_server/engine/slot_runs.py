"""What a slot does with jobs: runs them as one inference, and each execution alone if that fails.

Blocks, and knows neither threads nor the loop. Whatever a slot raises is an outcome: a slot of which nobody
heard again would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import ParamSpec, TypeVar

from inferwire_proto.errors import Code
from inferwire_server.bugs import logged_failure
from inferwire_server.core.scheduling.batching import join, rows_of, split
from inferwire_server.core.scheduling.job import Apart, Finish, Finishes, Job, Outcome, Result, Work
from inferwire_server.core.scheduling.stacks import DROPPED, together, unstacked
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.errors import ServingError

P = ParamSpec("P")
T = TypeVar("T")


class SlotRun:
    """Jobs that a slot is to run. Holds their work: a job lets go of its own when it is cancelled.

    Attributes:
        outcomes: What each job gave, once all steps are done.
        fell_apart: Whether what was to be one inference failed as one, and each execution ran alone.
    """

    fell_apart = False

    def __init__(self, slot: Slot, jobs: tuple[Job, ...]) -> None:
        self.outcomes: Sequence[Outcome] = ()
        self._slot = slot
        self._jobs = jobs
        self._works = [job.work for job in jobs]

    def __call__(self) -> Sequence[Outcome]:
        """Run to the end, and give each job its outcome."""
        for _ in self.steps():
            pass
        return self.outcomes

    def steps(self) -> Iterator[None]:
        """Run an inference at each step, and raise nothing: whatever goes wrong beside an inference ends all jobs."""
        try:
            if len(self._jobs) == 1 and self._works[0].executions == 1:
                self.outcomes = [self._run_alone(0, 0, self._works[0])]
            else:
                yield from self._run_several()
        except GeneratorExit:
            raise  # the loop has ended, and nobody waits any more
        except BaseException as error:  # noqa: BLE001 - a slot that does not report is lost
            self.fail(self._failure(error))

    def fail(self, error: ServingError) -> None:
        """Give each job this outcome in place of a run."""
        self.outcomes = [error] * len(self._jobs)

    @property
    def given(self) -> list[Work]:
        """The work that its outcomes have the outputs of; looking at states is none."""
        given: list[Work] = []
        for work, outcome in zip(self._works, self.outcomes, strict=True):
            if isinstance(outcome, tuple):
                if work.states is None:
                    given.append(work)
            elif isinstance(outcome, Apart):
                pairs = zip(unstacked(work), outcome.results, strict=True)
                given += [execution for execution, result in pairs if isinstance(result, tuple)]
        return given

    def _run_several(self) -> Iterator[None]:
        """Run together what may be. Jobs that were cancelled on the way here have nothing left to run."""
        wanted = [index for index, job in enumerate(self._jobs) if job.error is None]
        if sum([self._works[index].executions for index in wanted]) > 1 and not self._works[0].one_by_one:
            found = self._run_together(wanted)
            yield
            if found is not None:
                results = dict(zip(wanted, found, strict=True))
                self.outcomes = [results.get(index, job.error or ()) for index, job in enumerate(self._jobs)]
                return
            self.fell_apart = True
        outcomes: list[Outcome] = [()] * len(self._jobs)
        for index in range(len(self._jobs)):
            outcomes[index] = yield from self._run_apart(index)
        self.outcomes = outcomes

    def _run_apart(self, index: int) -> Generator[None, None, Outcome]:
        """Run each execution of a job alone."""
        results: list[Result] = []
        for position, work in enumerate(unstacked(self._works[index])):
            results.append(self._run_alone(index, position, work))
            yield
        return self._outcome(together, results)

    def _run_alone(self, index: int, position: int, work: Work) -> Result:
        job = self._jobs[index]
        if job.error is not None or position in job.dropped:
            return job.error or DROPPED
        return self._outcome(self._run, work, [index], self._finishes(index))

    def _run_together(self, wanted: Sequence[int]) -> Sequence[Result] | None:
        """Run several; None if that failed and each is to run alone, so that one bad input fails alone."""
        works = [self._works[index] for index in wanted]
        outcome = self._outcome(lambda: split(self._run(join(works), wanted), [rows_of(work) for work in works]))
        if not isinstance(outcome, ServingError):
            return [self._finished(index, outputs) for index, outputs in zip(wanted, outcome, strict=True)]
        return [outcome] * len(works) if outcome.code is Code.CANCELLED else None

    def _run(self, work: Work, indices: Sequence[int], finishes: Finishes = ()) -> tuple[Tensor, ...]:
        if work.states is not None:
            return self._slot.access(work.states)
        try:
            return self._slot.run(work.inputs, work.outputs, finishes)
        finally:
            for index in indices:
                if self._works[index].is_profiled:
                    self._profile(indices)
                    break

    def _finished(self, index: int, outputs: tuple[Tensor, ...]) -> Result:
        """Make of a job's outputs of a run with others what its caller gets."""
        work = self._works[index]
        return self._outcome(self._as_wanted, index, outputs) if work.finishes or work.kept else outputs

    def _as_wanted(self, index: int, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Finish outputs, and copy those that are kept: as it is, each holds the memory of all that ran together."""
        work = self._works[index]
        if work.finishes:
            pairs = zip(self._finishes(index), outputs, strict=True)
            outputs = tuple([tensor if finish is None else finish(tensor) for finish, tensor in pairs])
        ports = zip(work.outputs, outputs, strict=True)
        return tuple([tensor.on_its_own() if port in work.kept else tensor for port, tensor in ports])

    def _finishes(self, index: int) -> Finishes:
        finishes = self._works[index].finishes
        return finishes and tuple(finish and partial(self._finish, index, finish) for finish in finishes)

    def _finish(self, index: int, finish: Finish, tensor: Tensor) -> Tensor:
        """Finish an output, unless its job was cancelled: where it would go may be used for something else by now."""
        error = self._jobs[index].error
        if error is not None:
            raise error
        return finish(tensor)

    def _profile(self, indices: Sequence[int]) -> None:
        profile = self._slot.profile()
        for index in indices:
            if self._works[index].is_profiled:
                self._jobs[index].profile = profile

    def _outcome(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | ServingError:
        try:
            return call(*args, **kwargs)
        except ServingError as error:
            # Its frames hold the inputs, and one of them what is returned here: only the collector would free those.
            error.__cause__ = error.__context__ = None
            return error.with_traceback(None)
        except BaseException as error:  # noqa: BLE001 - a slot that does not report is lost
            return self._failure(error)

    def _failure(self, error: BaseException) -> ServingError:
        return logged_failure("a slot", error, model=str(self._jobs[0].model))
