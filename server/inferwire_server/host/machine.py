"""What the machine has room for, as this process may use it."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import disk_usage
from tempfile import gettempdir

from inferwire_server.host.control_groups import OWN_GROUPS, ControlGroups
from inferwire_server.host.mounts import is_in_memory


def memory_bytes(groups: ControlGroups = OWN_GROUPS) -> int:
    """Say how much memory there is: the machine's, or what this process's control groups may have of it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(machine, groups.memory_bytes or machine)


def free_temporary_bytes(groups: ControlGroups = OWN_GROUPS) -> int:
    """Say how much is free where temporary files are; if they are in memory, a quarter of the memory at most."""
    folder = Path(gettempdir())
    free = disk_usage(folder).free
    # Of memory, more may be free than a container may have.
    return min(free, memory_bytes(groups) // 4) if is_in_memory(folder) else free
