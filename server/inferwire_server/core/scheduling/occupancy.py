"""How busy a device, or one of its models, is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The slots that are busy, and who waits for one.

    Attributes:
        queued: How many executions wait: a stack counts as so many.
        bound: How many callers are bound to slots of their own, or wait to be.
    """

    running: int
    slots: int
    queued: int
    bound: int = 0
