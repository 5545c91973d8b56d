"""What a scheduler has its engine do: values, and nothing that decides."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from inferwire_server.core.scheduling.bindings import Binding
from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.scheduling.lane import ModelKey


class Start(NamedTuple):
    """Run the jobs, all of one model, with so many executions together, as one inference in this slot of it."""

    jobs: tuple[Job, ...]
    slot: int
    executions: int = 1


class Stop(NamedTuple):
    """Cancel what this slot is running. It stays busy until it reports."""

    model: ModelKey
    slot: int


class End(NamedTuple):
    """The job has ended: tell whoever waits for it."""

    job: Job


class Drained(NamedTuple):
    """Nothing of a removed model runs any more: its slots may go."""

    model: ModelKey


class Unbound(NamedTuple):
    """A binding has ended: forget what its slot holds, and tell its caller."""

    binding: Binding
    slot: int | None


Effect: TypeAlias = Start | Stop | End | Drained | Unbound
