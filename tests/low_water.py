"""The low-water mark of a connection's other end, where both ends are this process's."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from inferwire_proto.host import low_water


def be_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have connections count as those of another host."""

    def is_from_here(connected: socket.socket) -> bool:
        del connected
        return False

    monkeypatch.setattr(low_water, "is_from_here", is_from_here)


def mark_beyond(own_name: tuple[str, int]) -> int:
    """Give the mark of the socket whose peer has this name."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if not stat.S_ISSOCK(entry.stat().st_mode):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as other:
                if other.family == socket.AF_INET and other.getpeername() == own_name:
                    return other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
    raise AssertionError(f"no socket of this process is connected to {own_name}")
