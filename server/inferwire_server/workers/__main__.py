"""A follower's process: `python -m inferwire_server.workers`, started by the lead alone."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Generator
from contextlib import contextmanager

import structlog
from structlog.contextvars import bind_contextvars

from inferwire_server.__main__ import run_worker
from inferwire_server.workers.followers import READY, STOP, Orders

log = structlog.stdlib.get_logger()


def main() -> int:
    """Follow orders until the lead says that it is time to stop, or has gone."""
    try:
        orders: Orders = pickle.load(sys.stdin.buffer)  # noqa: S301 - from nobody but the process that started this one
    except EOFError:
        return 0
    # Whatever else is written to the standard output is not for the lead.
    report = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    bind_contextvars(worker=orders.workers.crew.index + 1)
    return run_worker(orders.settings, orders.workers, lambda: os.write(report, READY), _until_told)


@contextmanager
def _until_told(stop: asyncio.Event) -> Generator[None]:
    """Set an event when the lead says so. Without it there is no server, and this process ends."""
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()

    def told() -> None:
        if os.read(file, len(STOP)) != STOP:
            log.error("the first worker has died, and the server with it")
            os._exit(1)
        loop.remove_reader(file)
        stop.set()

    loop.add_reader(file, told)
    try:
        yield
    finally:
        loop.remove_reader(file)


if __name__ == "__main__":
    sys.exit(main())
