"""How many files and connections the process may have open at once."""

from __future__ import annotations

from contextlib import suppress
from resource import RLIMIT_NOFILE, getrlimit, setrlimit


def take_all_that_are_allowed() -> None:
    """Raise the limit as far as the system allows: the lower one to begin with is for programs that use `select`."""
    _, most = getrlimit(RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        setrlimit(RLIMIT_NOFILE, (most, most))
