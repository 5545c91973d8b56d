"""Asks a server whether it is ready. Needs the standard library alone, so that a container can run it often.

`python -m inferwire_cli.health [HOST:PORT | https://HOST:PORT]` exits with 0 where it is, else with 1.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection

READY_PATH = "/v2/health/ready"
DEFAULT_PORT = "8000"
TLS_SCHEME = "https://"


def is_ready(host: str, port: int, timeout_s: float = 3.0, *, is_secure: bool = False) -> bool:
    """Ask once; a server that cannot be reached is not ready."""
    connection = (
        HTTPSConnection(host, port, timeout=timeout_s, context=_context(host))
        if is_secure
        else HTTPConnection(host, port, timeout=timeout_s)
    )
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
    given = arguments[0] if arguments else own
    host, _, port = given.removeprefix(TLS_SCHEME).rpartition(":")
    # The environment is that of the server on this machine, and says nothing of another.
    is_secure = given.startswith(TLS_SCHEME) or (_is_local(host) and bool(environment.get("INFERWIRE_TLS_CERTIFICATE")))
    return 0 if is_ready(host, int(port), is_secure=is_secure) else 1


def _is_local(host: str) -> bool:
    return host in ("localhost", "[::1]") or host.startswith("127.")


def _context(host: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if _is_local(host):
        # A machine that asks itself goes by no name that a certificate has, which is made for those who come from
        # elsewhere. Nobody is in between, and all that is sent is the question.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
