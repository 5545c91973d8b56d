"""How many files and connections the process may have open at once."""

from __future__ import annotations

import os
from contextlib import suppress
from errno import EMFILE
from resource import RLIMIT_NOFILE, getrlimit, setrlimit


def take_all_that_are_allowed() -> None:
    """Raise the limit as far as the system allows: the lower one to begin with is for programs that use `select`."""
    _, most = getrlimit(RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        setrlimit(RLIMIT_NOFILE, (most, most))


def limit_that_is_reached() -> int | None:
    """Give how many files the process may have open, and has; None as long as it can open one more."""
    try:
        os.close(os.open("/", os.O_RDONLY))
    except OSError as error:
        if error.errno == EMFILE:
            return getrlimit(RLIMIT_NOFILE)[0]
    return None
