"""How busy a device, or one of its models, is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many slots are busy, and how much waits for one.

    Attributes:
        queued: How many executions wait: a stack counts as many as it has.
        bound: How many callers are bound to slots of their own, or wait to be.
    """

    running: int
    slots: int
    queued: int
    bound: int = 0
