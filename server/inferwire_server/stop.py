"""How the process is told to end: the first signal asks, the second insists."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

import structlog

log = structlog.stdlib.get_logger()

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals() -> Generator[asyncio.Event, None, None]:
    """Give an event that the first SIGTERM or SIGINT sets; a second one ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    asked = False

    def received(number: signal.Signals) -> None:
        nonlocal asked
        # A worker that the first one has told to stop may be sent the same signal as that one, and has to finish, too.
        if asked:
            os._exit(128 + number)
        asked = True
        log.info("stopping", signal=number.name)
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, received, number)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
