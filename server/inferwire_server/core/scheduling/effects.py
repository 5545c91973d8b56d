"""What the scheduler tells the engine to do, as plain values: nothing here decides anything."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from inferwire_server.core.scheduling.bindings import Binding
from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.scheduling.lane import ModelKey


class Start(NamedTuple):
    """Run these jobs of one model in this slot of it. Together they are this many executions."""

    jobs: tuple[Job, ...]
    slot: int
    executions: int = 1


class Stop(NamedTuple):
    """Cancel what this slot runs. The slot stays busy until its run is reported."""

    model: ModelKey
    slot: int


class End(NamedTuple):
    """The job has ended: call its `on_end`."""

    job: Job


class Drained(NamedTuple):
    """No job of a removed model waits or runs any more: its slots may be freed."""

    model: ModelKey


class Unbound(NamedTuple):
    """A binding has ended: forget what its slot holds, and tell its caller."""

    binding: Binding


Effect: TypeAlias = Start | Stop | End | Drained | Unbound
