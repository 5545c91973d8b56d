"""`inferwire serve`: hands the parsed settings to the server."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from inferwire_server.settings import Settings

from inferwire_cli.extras import needs_extra


def serve(*, settings: Annotated[Settings, Parameter(name="*")]) -> int:
    """Serve models over gRPC and REST.

    Every flag has an environment variable too; the flag wins. SIGTERM or Ctrl-C lets running work finish
    within the grace period; a second one ends at once.
    """
    with needs_extra("server", "inferwire serve"):
        from inferwire_server.__main__ import run
    return run(settings)
