"""When a look at the peers comes so late that this process has stood still."""

from __future__ import annotations

from inferwire_server.transport.standstill import LATE_S, Standstill


def test_only_a_look_that_comes_very_late_ends_a_standstill() -> None:
    standstill = Standstill()
    late = 2.0 + LATE_S
    times = (0.0, 2.0, 2.0 + late, 3.0 + 2 * late, 5.0 + 2 * late)
    assert [standstill.is_over(now, 2.0) for now in times] == [False, False, False, True, False]


def test_a_look_that_is_due_sooner_is_late_sooner() -> None:
    standstill = Standstill()
    standstill.is_over(0.0, 10.0)
    assert not standstill.is_over(1.0, 0.1)
    assert standstill.is_over(6.2, 0.1)
    assert repr(standstill) == "<Standstill: a look is due at 6.3>"
