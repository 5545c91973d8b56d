"""How the process is told to end: the first signal asks, the second insists."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

import structlog

log = structlog.stdlib.get_logger()

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

_MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGQUIT)
"""The signals that whatever starts the process may have it ignore, as nohup does."""


@contextmanager
def stop_on_signals() -> Generator[asyncio.Event, None, None]:
    """Give an event that the first signal to end sets; a second signal ends the process at once.

    SIGHUP never counts as the second: when a terminal closes, it comes from the shell, and again when the shell is
    gone. Signals that the process has blocked until now are delivered here. When the block is left, the handlers that
    there were before are in place again.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    asked = False

    def received(number: signal.Signals) -> None:
        nonlocal asked
        # A worker that the lead has told to stop may get the same signal as the lead, and has to finish, too.
        if asked and number == signal.SIGHUP:
            return
        if asked:
            os._exit(128 + number)
        asked = True
        log.info("stopping", signal=number.name)
        stop.set()

    heeded = [each for each in _SIGNALS if not (each in _MAY_BE_IGNORED and signal.getsignal(each) == signal.SIG_IGN)]
    before = {number: signal.getsignal(number) for number in heeded}
    for number in heeded:
        loop.add_signal_handler(number, received, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heeded)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
