"""Whose turn it is: each model's share of a device's time, by start-time fair queueing.

A model's *tag* is the device time it has had, divided by its weight; the smallest tag runs next.
A run is first charged what earlier runs of its model took; when it ends, the charge is corrected to what it took.
Knows neither jobs nor slots: the scheduler says when a model asks, and when a run begins and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

CREDIT_S = 1.0
"""The most device time a model that fell behind may catch up on.

A model falls behind if it has too few slots, or if the jobs of other models are more urgent. Without a bound it would
later keep all other models out for as long as it had been behind.
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
        """Record that a model asks again after it had no jobs: it has no claim on the time in between."""
        share.tag = max(share.tag, self._virtual_now)

    def turn(self, share: Share) -> float:
        """Say where a model stands among those that ask: less is sooner."""
        return max(share.tag, self._virtual_now - CREDIT_S)

    def begin(self, share: Share) -> float:
        """Charge a model for a run that begins, and give the charge."""
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
