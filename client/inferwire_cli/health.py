"""Asks a server whether it is ready. Needs the standard library alone, so that a container can run it often.

`python -m inferwire_cli.health [HOST:PORT]` exits with 0 where it is, else with 1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException

READY_PATH = "/v2/health/ready"
DEFAULT_PORT = "8000"


def is_ready(host: str, port: int, timeout_s: float = 3.0) -> bool:
    """Ask once; a server that cannot be reached is not ready."""
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", READY_PATH)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Ask the server at the given address, or the one on this machine, and return the exit code."""
    own = f"127.0.0.1:{environment.get('INFERWIRE_HTTP_PORT', DEFAULT_PORT)}"
    host, _, port = (arguments[0] if arguments else own).rpartition(":")
    return 0 if is_ready(host, int(port)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
