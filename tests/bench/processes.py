"""What a process and those it has started use, as the kernel counts it."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _USER, _SYSTEM, _RESIDENT = 1, 11, 12, 21


def cpu_s(pid: int | None) -> float:
    """Read the CPU seconds that a process and its descendants have used; none if there is no process."""
    if pid is None:
        return 0.0
    return sum(int(stat[_USER]) + int(stat[_SYSTEM]) for stat in _family(pid)) / _TICKS


def resident_bytes(pid: int) -> int:
    """Read the memory that a process and its descendants hold."""
    return sum(int(stat[_RESIDENT]) for stat in _family(pid)) * _PAGE


def _family(pid: int) -> list[list[str]]:
    """Give what the kernel says of a process and all below it."""
    children: dict[int, list[int]] = defaultdict(list)
    stats: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        number = int(path.parent.name)
        stats[number] = stat
        children[int(stat[_PARENT])].append(number)
    found, to_see = list[list[str]](), [pid]
    while to_see:
        number = to_see.pop()
        found.append(stats[number])
        to_see += children[number]
    return found
