"""Which file systems other machines may change."""

from __future__ import annotations

import os
from pathlib import Path

from inferwire_server.host.mounts import shared_devices

MOUNTED = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 27 0:35 / /models rw,relatime shared:7 master:1 - nfs4 files.example:/models rw,vers=4.2
32 27 0:36 /folder /models/bucket\\040of\\040all rw,relatime - fuse.gcsfuse bucket rw
33 27 0:37 / /home rw,relatime - fuse exports rw
34 27 8:1 / /media rw,relatime - fuseblk /dev/sda1 rw
35 27 0:38 / /tmp rw - tmpfs tmpfs rw
"""


def test_they_are_those_of_networks_and_of_programs(tmp_path: Path) -> None:
    (mounted := tmp_path / "mountinfo").write_text(MOUNTED)
    assert shared_devices(mounted) == {os.makedev(0, minor) for minor in (35, 36, 37)}


def test_where_the_system_does_not_say_there_are_none(tmp_path: Path) -> None:
    assert shared_devices(tmp_path / "mountinfo") == frozenset()


def test_what_is_mounted_here_can_be_read() -> None:
    assert Path("/dev/shm").stat().st_dev not in shared_devices()
