"""What the machine has room for, as this process may use it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from shutil import disk_usage
from tempfile import gettempdir

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container's memory limit stands, by the newer and the older interface."""


def memory_bytes(limits: Sequence[Path] = _CGROUP_LIMITS) -> int:
    """Say how much memory there is: the machine's, or what the container may have of it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *filter(None, map(_limit, limits))])


def free_temporary_bytes() -> int:
    """Say how much is free where temporary files are."""
    return disk_usage(gettempdir()).free


def _limit(file: Path) -> int | None:
    """Read a limit; None where there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
