"""`inferwire serve`: hands the parsed settings to the server. Importing it needs nothing of the server but these."""

from __future__ import annotations

import sys

from inferwire_cli.extras import needs_extra, needs_linux
from inferwire_server.settings import Settings

DEFAULTS = Settings()


def serve(*, settings: Settings = DEFAULTS) -> int:
    """Serve models over gRPC and REST.

    Flags can be environment variables too: INFERWIRE_HTTP_PORT=80 is --http-port 80, INFERWIRE_WATCH=1 is --watch,
    INFERWIRE_PROPERTY='A=1 B=2' is --property A=1 --property B=2. Several paths are separated by colons. Flags override
    variables. An empty variable counts as unset, but INFERWIRE_API_KEY_FILE, INFERWIRE_TLS_CERTIFICATE and
    INFERWIRE_TLS_KEY are refused if they are empty.

    SIGTERM, Ctrl-C or closing the terminal stops the server. Running work has --grace-s seconds to end; a second
    SIGTERM or Ctrl-C ends it at once.

    For example:

    ```
    inferwire serve --model-repository models
    inferwire serve --model-repository models --host 0.0.0.0 --device CPU
    inferwire serve --model-repository models --property NUM_STREAMS=4
    ```
    """
    if sys.platform != "linux":
        raise needs_linux("inferwire serve")
    with needs_extra("server", "inferwire serve"):
        from inferwire_server.__main__ import run
    return run(settings)
