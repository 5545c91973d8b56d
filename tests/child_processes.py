"""The processes that another one has started, as the system tells of them."""

from __future__ import annotations

from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Give the processes that one has started and that have not been waited for."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def followers_of(pid: int) -> list[int]:
    """Give the workers that a server has started, of those that run their program already.

    To stop one before would stop what is still a copy of the process that starts it.
    """
    return [child for child in children_of(pid) if b"inferwire_server.workers" in command_of(child)]


def command_of(pid: int) -> bytes:
    """Give the words that have started a process; of one that is gone, none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
