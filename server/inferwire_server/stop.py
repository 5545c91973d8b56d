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

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        log.info("stopping", signal=number.name)
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, received, number)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
