"""How the process is told to end: the first signal asks, the second insists."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

import structlog

log = structlog.stdlib.get_logger()

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

_MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGQUIT)
"""The signals that whatever starts the process may have it ignore, as nohup does."""

_ONE_WISH_S = 0.5
"""How long after the first a signal still says the same: a terminal sends it to a program that starts a server and to
the server, and the program passes on its own. A person who insists takes longer."""


@contextmanager
def stop_on_signals(clock: Callable[[], float] = monotonic) -> Generator[asyncio.Event, None, None]:
    """Give an event that the first signal to end sets; a second signal, not right behind, ends the process at once.

    SIGHUP never counts as the second: when a terminal closes, it comes from the shell, and again when the shell is
    gone. Signals that the process has blocked until now are delivered here. When the block is left, the handlers that
    there were before are in place again.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    insists_from: float | None = None

    def received(number: signal.Signals) -> None:
        nonlocal insists_from
        if insists_from is not None:
            # A worker that the lead has told to stop may get the same signal as the lead, and has to finish, too.
            if number != signal.SIGHUP and clock() >= insists_from:
                os._exit(128 + number)
            return
        insists_from = clock() + _ONE_WISH_S
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
