"""`inferwire serve`: hands the parsed settings to the server."""

from __future__ import annotations

from inferwire_cli.extras import needs_extra
from inferwire_server.settings import Settings

DEFAULTS = Settings()


def serve(*, settings: Settings = DEFAULTS) -> int:
    """Serve models over gRPC and REST.

    Each flag can be an environment variable too: INFERWIRE_HTTP_PORT is --http-port. The flag wins.

    SIGTERM or Ctrl-C lets running work finish within the grace period; a second one ends at once.
    """
    with needs_extra("server", "inferwire serve"):
        from inferwire_server.__main__ import run
    return run(settings)
