"""A follower's process: `python -m inferwire_server.workers`, started by the lead alone."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Generator
from contextlib import contextmanager

from structlog.contextvars import bind_contextvars

from inferwire_server.__main__ import run_worker
from inferwire_server.workers.followers import READY, Orders


def main() -> int:
    """Follow orders until the lead closes its end of the standard input, or has gone."""
    try:
        orders: Orders = pickle.load(sys.stdin.buffer)  # noqa: S301 - from nobody but the process that started this one
    except EOFError:
        return 0
    # Whatever else is written to the standard output is not for the lead.
    report = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    bind_contextvars(worker=orders.workers.crew.index + 1)
    return run_worker(orders.settings, orders.workers, lambda: os.write(report, READY), _until_input_ends)


@contextmanager
def _until_input_ends(stop: asyncio.Event) -> Generator[None]:
    """Set an event when the standard input ends."""
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()

    def ended() -> None:
        loop.remove_reader(file)
        stop.set()

    loop.add_reader(file, ended)
    try:
        yield
    finally:
        loop.remove_reader(file)


if __name__ == "__main__":
    sys.exit(main())
