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
"""Those that somebody who started the process may have it ignore, as nohup does."""


@contextmanager
def stop_on_signals() -> Generator[asyncio.Event, None, None]:
    """Give an event that the first signal to end sets; a second signal ends the process at once.

    SIGHUP is never the second: of a closed terminal it comes from the shell, and again when that has gone. Those that
    the process has held back until now come here, and later ones find what there was before.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    asked = False

    def received(number: signal.Signals) -> None:
        nonlocal asked
        # A worker that the first one has told to stop may be sent the same signal as that one, and has to finish, too.
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
