"""How many files and connections the process may have open at once."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from errno import EMFILE, ENFILE
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import structlog

log = structlog.stdlib.get_logger()

_EVERY_S = 5.0


def take_all_that_are_allowed() -> None:
    """Have as many as the system lets us: the lower limit it starts with is for programs of the time of `select`."""
    _, most = getrlimit(RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        setrlimit(RLIMIT_NOFILE, (most, most))


async def tell_when_there_are_too_many(every_s: float = _EVERY_S) -> None:
    """Log when no more can be opened, and when they can again: the loop closes new connections then without a word."""
    were_too_many = False
    while True:
        reason = _why_none_more()
        if reason is not None and not were_too_many:
            log.warning("too many files are open, new connections are closed", reason=reason)
        elif reason is None and were_too_many:
            log.info("new connections are taken again")
        were_too_many = reason is not None
        await asyncio.sleep(every_s)


def _why_none_more() -> str | None:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.strerror if error.errno in (EMFILE, ENFILE) else None
    return None
