"""Which of a device's lanes starts a job next: the rule among its models."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from inferwire_server.core.scheduling.batching import Group
from inferwire_server.core.scheduling.fairness import FairShares
from inferwire_server.core.scheduling.lane import Lane

_Turn: TypeAlias = tuple[int, float, int]
"""Where a lane stands, less is sooner: how urgent its next job is, its turn by fair shares, and the job's arrival."""


def next_lane(
    lanes: Collection[Lane], shares: FairShares, now: float, is_full: bool
) -> tuple[Lane, Group | None] | None:
    """Find the lane whose turn it is, and its group whose jobs start; None if no job may start.

    While all places are taken and the device `is_full`, only brief lanes, which need none, start jobs. The one that is
    next is held back by each lane that waits for a place or a slot, is not less urgent, and has had less of the device.
    More urgent is no more than as urgent there: holding a brief run back lets no other start sooner.
    """
    if is_full and not any(lane.is_brief and lane.queues for lane in lanes):
        return None
    first, first_turn = None, None
    unable: list[_Turn] = []
    for lane in lanes:
        may_start = lane.has_slots_left and (lane.is_brief or not is_full)
        competes = may_start or (is_full and lane.slots > 0)
        if not lane.queues or not competes or (found := lane.next_group(now)) is None:
            continue
        (urgency, _, arrival), group = found
        turn = (urgency, shares.turn(lane.share), arrival)
        if not may_start:
            unable.append(turn)
        elif first_turn is None or turn < first_turn:
            first, first_turn = (lane, group), turn
    if first_turn is None or any(turn[0] <= first_turn[0] and turn[1:] < first_turn[1:] for turn in unable):
        return None
    return first
