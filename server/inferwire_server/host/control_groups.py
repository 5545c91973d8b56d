"""What this process's control groups leave it of the machine: a container's, a systemd unit's, and those around them.

A group limits all that is in it, including the groups in it. So the least of the limits counts, from the process's own
group up to the outermost that can be seen. Linux has two interfaces to them: in the newer one all groups are in one
tree, in the older one each controller (memory, cpu) has a tree of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The groups that one process is in.

    Attributes:
        membership: The file that names them: a line for each tree, of its number, its controllers, and the group's
            path. The newer interface's line has no controllers.
        trees: Where the trees are mounted: the newer one itself, or a folder for each controller. In a container the
            path may be one of the machine's, of which only the container's group is mounted, as the root.
    """

    membership: Path = Path("/proc/self/cgroup")
    trees: Path = Path("/sys/fs/cgroup")

    @property
    def memory_bytes(self) -> int | None:
        """How much memory the process may take; None if nothing limits it."""
        return min(filter(None, map(_memory_bytes, self._of("memory"))), default=None)

    @property
    def cpus(self) -> float | None:
        """How many CPUs' time the process may have, on however many it may run; None if nothing limits it."""
        return min(filter(None, map(_cpus, self._of("cpu"))), default=None)

    def _of(self, controller: str) -> Iterator[Path]:
        """Give the folders of the groups that limit what one controller is for, from the innermost outwards."""
        for line in _text(self.membership).splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = self.trees / controller if controllers else self.trees
            group = root / path.lstrip("/")
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(root))


def _memory_bytes(group: Path) -> int | None:
    text = _text(group / "memory.max") or _text(group / "memory.limit_in_bytes")
    return int(text) if text.strip().isdecimal() else None  # else "max", or no such group here


def _cpus(group: Path) -> float | None:
    """Read how many CPUs' time a group may have: its quota in each period, divided by the period."""
    older = (group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us")
    match _text(group / "cpu.max").split() or [word for file in older for word in _text(file).split()]:
        case [quota, period] if quota.isdecimal():
            return int(quota) / int(period)
        case _:  # "max" or -1, or no such group here
            return None


def _text(file: Path) -> str:
    """Read a file; nothing where it cannot be read."""
    try:
        return file.read_text()
    except OSError:
        return ""


OWN_GROUPS = ControlGroups()
"""The control groups of this process."""
