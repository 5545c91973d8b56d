"""The file systems that are mounted here, by the numbers of their devices, and what their kinds mean."""

from __future__ import annotations

import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
"""What is mounted: a line for each, with the number of its device and, after a dash, its kind."""

_NETWORK = "9p afs beegfs ceph cifs gfs2 gpfs lustre nfs nfs4 ocfs2 orangefs smb3 smbfs"
_HOST = "vboxsf virtiofs"
_SHARED = frozenset(f"{_NETWORK} {_HOST} fuse".split())
"""Kinds of file systems that several machines may have, or a virtual machine and its host: the system does not report
what the others change. Those that programs make are `fuse`, or begin with that and a dot: most of them show what is on
another machine, or in a store of objects."""


def is_in_memory(folder: Path) -> bool:
    """Whether a folder's files take memory."""
    return _kinds(_MOUNTS).get(folder.stat().st_dev) == "tmpfs"


def shared_devices(mounted: Path = _MOUNTS) -> frozenset[int]:
    """Give the devices of the file systems that other machines may change, too."""
    return frozenset(device for device, kind in _kinds(mounted).items() if kind in _SHARED or kind.startswith("fuse."))


def _kinds(mounted: Path) -> dict[int, str]:
    """Give the kinds of file systems by their devices; none where the system does not say."""
    try:
        mounts = [line.split() for line in mounted.read_text(errors="replace").splitlines()]
    except OSError:
        return {}
    return {_device(mount[2]): mount[mount.index("-") + 1] for mount in mounts}


def _device(number: str) -> int:
    major, minor = number.split(":")
    return os.makedev(int(major), int(minor))
