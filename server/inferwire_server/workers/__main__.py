"""A follower's process: `python -m inferwire_server.workers`, started by the lead alone."""

from __future__ import annotations

from inferwire_proto.host.ending_signals import end_at_once, hold_back

if __name__ == "__main__":
    # A service manager such as systemd sends the signal that stops a service to each of its processes. The lead gets
    # it, too, and tells this one to end; a follower that ends by itself it would take for lost.
    hold_back("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    end_at_once("SIGINT")

import asyncio
import os
import pickle
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

import structlog

from inferwire_server.process import run_worker
from inferwire_server.workers import followers
from inferwire_server.workers.followers import READY, Orders

log = structlog.stdlib.get_logger()


def main() -> None:
    """Follow orders until the lead says that it is time to stop, or is gone."""
    told = sys.stdin.fileno()
    try:
        size = int.from_bytes(_read(told, followers.SIZE_BYTES))
        orders: Orders = pickle.loads(_read(told, size))  # noqa: S301 - only the process that started this one sends any
    except EOFError:  # the lead is gone, or ends before it has given any
        return
    # Standard output is the way to the lead: whatever else is written there goes to standard error.
    report = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lead = _Lead(told, report)
    run_worker(orders.settings, orders.workers, lead)


def _read(told: int, size: int) -> bytes:
    """Read so many bytes, and none of what the lead says after them.

    Raises:
        EOFError: If it says no more.
    """
    content = b""
    while len(content) < size:
        read = os.read(told, size - len(content))
        if not read:
            raise EOFError
        content += read
    return content


class _Lead:
    """The lead, as a follower knows it. Without it there is no server, and this process ends."""

    def __init__(self, told: int, report: int) -> None:
        self._told = told
        self._report = report
        self._works = asyncio.Event()

    async def lets_work(self) -> None:
        """Say that this worker is ready, and wait until all are."""
        os.write(self._report, READY)
        await self._works.wait()

    @contextmanager
    def stops(self, stop: asyncio.Event) -> Generator[None]:
        """Set an event when the lead says so."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._told, self._listen, stop)
        try:
            yield
        finally:
            loop.remove_reader(self._told)

    def _listen(self, stop: asyncio.Event) -> None:
        match os.read(self._told, 1):
            case followers.WORK:
                self._works.set()
            case followers.STOP:
                stop.set()
            case followers.ASK:
                # If the lead is gone by now, this process ends when it reads on.
                with suppress(BrokenPipeError):
                    os.write(self._report, followers.HERE)
            case _:
                log.error("the first worker has gone, and the server with it")
                os._exit(1)


if __name__ == "__main__":
    main()
