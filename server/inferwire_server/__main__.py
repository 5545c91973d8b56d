"""Runs the server in this process: `python -m inferwire_server`, or the `inferwire serve` command."""

from __future__ import annotations

import os
import signal
import sys

from inferwire_server.flags import environment
from inferwire_server.settings import Settings


def _end(number: int, _: object) -> None:
    os._exit(128 + number)


# A container's first process is ended by no signal that it does not handle. What serves handles this one, and to import
# that takes a while.
signal.signal(signal.SIGTERM, _end)

from inferwire_server.process import run_worker  # noqa: E402
from inferwire_server.workers.crews import workers_of  # noqa: E402

_DEFAULTS = Settings()


def run(settings: Settings = _DEFAULTS) -> int:
    """Serve until a signal ends it, and give the process's exit code."""
    return run_worker(settings, workers_of(settings))


if __name__ == "__main__":
    from cyclopts import App

    app = App(name="inferwire_server", config=environment())
    app.default(run)
    sys.exit(app(result_action="return_int_as_exit_code_else_zero"))
