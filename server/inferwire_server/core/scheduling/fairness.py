"""Whose turn it is: each model's share of a device's time, by start-time fair queueing.

A model's *tag* is the device time it has had, divided by its weight; the smallest tag runs next.
A run is charged what runs of its model took before, and once it has ended what it really took.
Knows neither jobs nor slots; the scheduler says who asks, begins and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

CREDIT_S = 1.0
"""How much device time a model makes up for that it asked for and could not use.

It falls behind where it has too few slots, or where others' jobs were more urgent. Without a
bound, it would later keep everybody out for as long as it was behind.
"""

_SMOOTHING = 1 / 8
"""How much the latest run counts in the estimate."""


@dataclass(slots=True)
class Share:
    """One model's claim on the device. `FairShares` alone changes it."""

    weight: float = 1.0
    tag: float = 0.0
    estimate_s: float | None = None


class FairShares:
    """The device's virtual time: the tag of the run that was furthest ahead when it began."""

    def __init__(self) -> None:
        self._virtual_now = 0.0

    def wake(self, share: Share) -> None:
        """Let a model ask again that asked for nothing: it has no claim on the time in between."""
        share.tag = max(share.tag, self._virtual_now)

    def turn(self, share: Share) -> float:
        """Say when the model's turn is: less is sooner."""
        return max(share.tag, self._virtual_now - CREDIT_S)

    def begin(self, share: Share) -> float:
        """Charge a model for a run that begins, and say how much."""
        charged = share.estimate_s or 0.0
        start = self.turn(share)
        self._virtual_now = max(self._virtual_now, start)
        share.tag = start + charged / share.weight
        return charged

    def end(self, share: Share, charged: float, took_s: float) -> None:
        """Correct the charge by what the run took, and learn from it."""
        share.tag += (took_s - charged) / share.weight
        known = took_s if share.estimate_s is None else share.estimate_s
        share.estimate_s = known + (took_s - known) * _SMOOTHING
