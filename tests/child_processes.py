"""The processes that another one has started, as the system lists them."""

from __future__ import annotations

from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Give the processes that another has started and not yet waited for."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def followers_of(pid: int) -> list[int]:
    """Give the workers that a server has started, if they run their program already.

    A worker that is stopped before that is still a copy of the process that starts it.
    """
    return [child for child in children_of(pid) if b"inferwire_server.workers" in command_of(child)]


def command_of(pid: int) -> bytes:
    """Give the command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
