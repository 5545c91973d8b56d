"""Runs the server in this process: `python -m inferwire_server`, or the `inferwire serve` command."""

from __future__ import annotations

from inferwire_proto.host.ending_signals import end_at_once

if __name__ == "__main__":
    end_at_once("SIGINT", "SIGTERM")  # until it handles them itself

import os
import sys
from typing import NoReturn

import structlog

from inferwire_proto.host.flags import environment, not_settings
from inferwire_server import logs
from inferwire_server.process import run_worker
from inferwire_server.settings import Settings
from inferwire_server.workers.processes import workers_of
from inferwire_server.workers.role import Alone

log = structlog.stdlib.get_logger()

_DEFAULTS = Settings()


def run(settings: Settings = _DEFAULTS) -> NoReturn:
    """Serve until a signal stops it, and end the process."""
    logs.configure(settings.log_format, settings.log_level)
    for variable, reason in not_settings(Settings, os.environ):
        log.warning("a variable without effect", variable=variable, reason=reason)
    run_worker(settings, workers_of(settings), Alone())


if __name__ == "__main__":
    from importlib.metadata import version

    from cyclopts import App

    app = App(name="python -m inferwire_server", version=lambda: version("inferwire"), config=environment())

    @app.default
    def serve(*, settings: Settings = _DEFAULTS) -> int:
        """Serve models over gRPC and REST. `inferwire serve --help` says the same with examples."""
        return run(settings)

    sys.exit(app(result_action="return_int_as_exit_code_else_zero"))
