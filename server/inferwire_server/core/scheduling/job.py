"""One submitted inference, from submit to collected or expired."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from inferwire_proto.errors import Code
from inferwire_server.core.callers import Caller
from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.bindings import Binding
from inferwire_server.core.scheduling.outlet import Outlet
from inferwire_server.core.states import StateAccess
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError, bug


class JobState(StrEnum):
    """What a job is doing.

    Attributes:
        is_terminal: Whether the job has ended.
    """

    is_terminal: bool

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    def __init__(self, name: str) -> None:
        self.is_terminal = name not in ("queued", "running")


FINISHED = JobState.FINISHED
"""Module-level because every job compares with it: Python 3.11 is slow to look up a member of an enumeration."""

_QUEUED, _RUNNING = JobState.QUEUED, JobState.RUNNING

_STATE_OF_CODE = {
    Code.CANCELLED: JobState.CANCELLED,
    Code.SHUTTING_DOWN: JobState.CANCELLED,
    Code.DEADLINE_EXCEEDED: JobState.EXPIRED,
}

INVALID = "invalid"
"""How a job is counted that failed because of its caller's own data, which was found only as the job ran."""

_OF_CALLERS = (Code.INVALID_INPUT, Code.TOO_LARGE)


class Timings(NamedTuple):
    """Where a job's time went, in seconds."""

    queue_s: float = 0.0
    inference_s: float = 0.0
    total_s: float = 0.0


NO_TIME = Timings()


Transform: TypeAlias = Callable[[Tensor], Tensor]
"""Turns an output into what its caller gets. Called where the slot runs, with a tensor that is valid only during the
call; may raise a ServingError."""

Transforms: TypeAlias = tuple[Transform | None, ...]
"""One transform for each output, or None for an output that is given as it is; empty if all of them are."""


class Work(NamedTuple):
    """What a slot is to do: inputs in the model's order, the outputs to take, and whether to time each layer.

    Attributes:
        states: What to do with the slot's states; such work is no inference.
        transforms: What makes of each output what its caller gets.
        executions: How many executions it is. More than one are a stack: they have equal shapes, and the rows of one
            lie behind those of the other. See `core.scheduling.stacks`.
        one_by_one: Whether each execution of a stack is an inference of its own.
        copied: Which of `outputs` are copied if they are part of a larger piece of memory. Outputs that are kept after
            the job's end must not keep the memory of other jobs that ran with it.
        carried_bytes: How many bytes of the inputs came with the call, and so are in memory for this work alone.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[int, ...]
    states: StateAccess | None = None
    is_profiled: bool = False
    transforms: Transforms = ()
    executions: int = 1
    one_by_one: bool = False
    copied: Collection[int] = ()
    carried_bytes: int = 0


@lru_cache
def _without_inputs(outputs: tuple[int, ...], executions: int, one_by_one: bool) -> Work:
    """Give what an ended job keeps of its work. Jobs of the same kind share one value."""
    return Work((), outputs, executions=executions, one_by_one=one_by_one)


Result: TypeAlias = tuple[Tensor, ...] | ServingError
"""What an execution gave: the outputs, or why there are none."""


@dataclass(frozen=True, slots=True)
class Apart:
    """What each execution of a stack gave, if they ran one by one and their results cannot be merged into one."""

    results: tuple[Result, ...]


Outcome: TypeAlias = Result | Apart
"""What a job's work gave. Where a stack ran as one, the outputs have the rows of all its executions."""


def state_of(result: Result) -> JobState:
    """Give the state in which an execution with this result has ended."""
    return _STATE_OF_CODE.get(result.code, JobState.FAILED) if isinstance(result, ServingError) else FINISHED


def outcome_of(result: Result) -> str:
    """Say how an execution with this result is counted: by its state, or as INVALID if its caller was at fault."""
    if isinstance(result, ServingError) and result.code in _OF_CALLERS and not result.is_of_server:
        return INVALID
    return state_of(result)


@dataclass(eq=False, slots=True, weakref_slot=True)
class Job:
    """A submitted inference, or a stack of them. It is changed by its methods alone.

    The scheduler alone calls them, except for two: its slot's run calls `take_profile`, and `on_end` may call `keep`.

    Attributes:
        model: The model that it runs on.
        work: What is to be done, without the inputs once it has ended.
        submitted_at: When it was submitted, by the clock of the scheduler.
        priority: A job of a higher priority starts first.
        deadline: When it expires, waiting or running; None for never.
        on_end: Called when it has ended.
        binding: The binding whose slot it runs in; None for any of the slots that callers share.
        received_at: When its request came, by the same clock; None if nobody noted it.
        caller: Who submitted it: callers with waiting jobs take turns. None for a job that is outside of these turns.
        outlet: Where its answer goes out; None where it is kept, or where no more than one answer can wait.
        state: What it is doing.
        started_at: When a slot took it; once it has ended, when that began with it.
        ended_at: When it ended.
        outputs: What it gave, if it has finished.
        error: Why it gave nothing, if it has ended otherwise.
        profile: What each layer took, where that was asked for.
        dropped: The positions of the stack's executions that were dropped, because their callers do not wait any more.
        apart: What each execution of a stack gave, where neither `outputs` nor `error` can say it for all of them.
        timings: Where its time went, once it has ended; zero for what has not happened.
    """

    # What the submitter says of it.
    model: Hashable
    work: Work
    submitted_at: float
    priority: int = 0
    deadline: float | None = None
    on_end: Callable[[Job], Any] | None = None
    binding: Binding | None = None
    received_at: float | None = None
    caller: Caller | None = None
    outlet: Outlet | None = None

    # What has become of it.
    state: JobState = field(default=JobState.QUEUED, init=False)
    started_at: float | None = field(default=None, init=False)
    ended_at: float | None = field(default=None, init=False)
    outputs: tuple[Tensor, ...] = field(default=(), init=False)
    error: ServingError | None = field(default=None, init=False)
    profile: tuple[LayerTime, ...] = field(default=(), init=False)
    dropped: frozenset[int] = field(default=frozenset(), init=False)
    apart: tuple[Result, ...] = field(default=(), init=False)
    timings: Timings = field(default=NO_TIME, init=False)

    @property
    def outcome(self) -> str:
        """How it is counted as a whole, once it has ended."""
        return self.state if self.error is None else outcome_of(self.error)

    @property
    def is_held_back(self) -> bool:
        """Whether it does not start for now, because the answers before it are not taken."""
        return self.outlet is not None and self.outlet.is_clogged

    def start(self, now: float) -> None:
        """Record that a slot has taken it."""
        if self.state is not _QUEUED:
            raise self._cannot_become(_RUNNING)
        self.state = _RUNNING
        self.started_at = now

    def begin(self, at: float) -> None:
        """Record when its run began: the slot that took it may have waited first."""
        self.started_at = at

    def finish(self, outputs: tuple[Tensor, ...] | Apart, now: float) -> None:
        """Record its outputs."""
        if self.state is not _RUNNING:
            raise self._cannot_become(FINISHED)
        if isinstance(outputs, Apart):
            self.apart = outputs.results
        else:
            self.outputs = outputs
        self._close(FINISHED, now)

    def take_profile(self, profile: tuple[LayerTime, ...]) -> None:
        """Record what each layer took, also in what has failed. Called where the slot runs."""
        self.profile = profile

    def keep(self, outputs: tuple[Tensor, ...]) -> None:
        """Replace the outputs after some were moved elsewhere to be kept: before anything else reads them."""
        if self.state is not FINISHED or len(outputs) != len(self.outputs):
            raise bug(f"{self!r} has no {len(outputs)} outputs to keep elsewhere")
        self.outputs = outputs

    def drop(self, index: int) -> None:
        """Record that the execution at this position is no longer waited for."""
        if self.state.is_terminal or not 0 <= index < self.work.executions:
            raise bug(f"{self!r} has no execution {index} to drop")
        self.dropped |= {index}

    def end(self, error: ServingError, now: float) -> None:
        """Record an end without outputs, and why: the state follows from the error's code."""
        if self.state.is_terminal:
            raise self._cannot_become(state_of(error))
        self.error = error
        self._close(state_of(error), now)

    def result(self) -> tuple[Tensor, ...]:
        """Give the outputs of an ended job.

        Raises:
            ServingError: Why it has none.
        """
        if self.error is not None:
            raise self.error.copy(is_of_job=True)
        if self.state is not FINISHED:
            raise bug(f"the result of {self!r} was asked for before its end")
        return self.outputs

    def __repr__(self) -> str:
        executions = self.work.executions
        stack = f", {executions} executions" if executions > 1 else ""
        return f"<Job on {self.model}: {self.state}{stack}>"

    def _close(self, state: JobState, now: float) -> None:
        """Record the end, and let go of the inputs: they may be large, and the job may be kept for a while."""
        work, total_s = self.work, now - self.submitted_at
        inference_s = 0.0 if self.started_at is None else now - self.started_at
        if work.one_by_one:
            # The executions ran one after the other: each waited for those before it, and took its part of the time.
            inference_s /= work.executions
        self.state = state
        self.ended_at = now
        self.timings = Timings(total_s - inference_s, inference_s, total_s)
        self.work = _without_inputs(work.outputs, work.executions, work.one_by_one)

    def _cannot_become(self, state: JobState) -> AssertionError:
        return bug(f"{self!r} cannot become {state}")
