"""How many files and connections the process may have open at once."""

from __future__ import annotations

from contextlib import suppress
from resource import RLIMIT_NOFILE, getrlimit, setrlimit


def take_all_that_are_allowed() -> None:
    """Have as many as the system lets us: the lower limit it starts with is for programs of the time of `select`."""
    _, most = getrlimit(RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        setrlimit(RLIMIT_NOFILE, (most, most))
