"""How a server schedules the executions of a request: `Scheduling`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

from inferwire.arguments import as_integer, incompatible

_PRIORITIES = range(-(2**31), 2**31)
_LONGEST_MS = 2.0**53
_SIGNATURE = "Scheduling(priority: int = 0, time_limit_ms: float | None = None)"


@dataclass(frozen=True, slots=True)
class Scheduling:
    """How urgent an inference is, and how long it may take; not in openvino.

    Example:
        >>> request.scheduling = Scheduling(priority=1, time_limit_ms=200)

    Args:
        priority: Of the jobs that wait for a device, the one with the largest number runs next. 0 is normal, or the
            priority that the operator has set for the model.
        time_limit_ms: How long the inference may take from its admission by the server to its end, in milliseconds;
            None for no limit. If it waits for longer, it never runs; if it runs for longer, it is cancelled, unless it
            is that of a tiny model and ends first. Both raise `inferwire.DeadlineExceeded`. The time that messages take
            there and back does not count.

    Raises:
        TypeError: For what are no numbers.
        ValueError: For a priority of more than 32 bits, or a limit that is not above 0, or over 2**53 ms.
    """

    priority: int = 0
    time_limit_ms: float | None = None

    def __post_init__(self) -> None:
        priority, limit = as_integer(self.priority), _as_number(self.time_limit_ms)
        if priority is None or (limit is None and self.time_limit_ms is not None):
            raise incompatible("__init__", _SIGNATURE, invoked=(self.priority, self.time_limit_ms))
        if priority not in _PRIORITIES:
            raise ValueError(f"the priority is {priority}, expected from -2147483648 to 2147483647")
        if limit is not None and not 0 < limit <= _LONGEST_MS:
            expected = "more than 0 and no more than 2**53, or None for none"
            raise ValueError(f"the time limit is {limit:g} ms, expected {expected}")
        object.__setattr__(self, "priority", priority)
        object.__setattr__(self, "time_limit_ms", limit)

    @property
    def time_limit_us(self) -> int:
        """The limit in whole microseconds, one at least; 0 for none."""
        return 0 if self.time_limit_ms is None else max(1, round(self.time_limit_ms * 1000))


def as_scheduling(value: object) -> Scheduling:
    """Give the value if it is a `Scheduling`.

    Raises:
        TypeError: For anything else.
    """
    if not isinstance(value, Scheduling):
        raise TypeError(f"the scheduling is {value!r}, expected an inferwire.Scheduling")
    return value


def _as_number(value: object) -> float | None:
    """Convert a number or a bool: openvino takes True for the integer 1, and so does `as_integer`."""
    if not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer or fraction that is larger than any float
        return math.inf if cast("Any", value) > 0 else -math.inf


NORMAL = Scheduling()
"""The scheduling of inferences for which the program sets none."""
