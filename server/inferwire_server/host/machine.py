"""What the machine has room for, as this process may use it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from shutil import disk_usage
from tempfile import gettempdir

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container's memory limit stands, by the newer and the older interface."""

_CPU_QUOTAS = (Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu"))
"""Where a container's CPU time stands: a file by the newer interface, a folder with two by the older."""

_MOUNTS = Path("/proc/self/mountinfo")
"""What is mounted: a line each with the number of its device, and after a dash of what type it is."""


def memory_bytes(limits: Sequence[Path] = _CGROUP_LIMITS) -> int:
    """Say how much memory there is: the machine's, or what the container may have of it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *filter(None, map(_limit, limits))])


def cpu_limit(quotas: Sequence[Path] = _CPU_QUOTAS) -> float | None:
    """Say how many CPUs' time the container may have, however many it may run on; None where nothing limits it."""
    return min(filter(None, map(_quota, quotas)), default=None)


def free_temporary_bytes(limits: Sequence[Path] = _CGROUP_LIMITS) -> int:
    """Say how much is free where temporary files are; a quarter of the memory at most if that is where they are."""
    folder = Path(gettempdir())
    free = disk_usage(folder).free
    return min(free, memory_bytes(limits) // 4) if _is_in_memory(folder) else free


def _is_in_memory(folder: Path) -> bool:
    """Whether a folder's files take memory: the system counts what is free there, and not what a container may have."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(errors="replace").splitlines()]
    except OSError:
        return False
    return any(mount[2] == number and mount[mount.index("-") + 1] == "tmpfs" for mount in mounts)


def _quota(place: Path) -> float | None:
    """Read how many CPUs a quota comes to; None where there is none."""
    try:
        if place.is_dir():
            quota, period = [(place / f"cpu.cfs_{what}_us").read_text() for what in ("quota", "period")]
        else:
            quota, period = place.read_text().split()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):
        return None  # "max" is no number, and means no limit


def _limit(file: Path) -> int | None:
    """Read a limit; None where there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
