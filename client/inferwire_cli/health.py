"""Asks a server whether it is ready. Needs the standard library alone, so that a container can run it often.

`python -m inferwire_cli.health [HOST:PORT | https://HOST:PORT]` exits with 0 where it is. Where it
is not, it exits with 1 and says on stderr why.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPSConnection

READY_PATH = "/v2/health/ready"
DEFAULT_PORT = "8000"
TLS_SCHEME = "https://"
READY = 200

_AS_OF_TLS = (ConnectionResetError, BadStatusLine)
"""How a server with TLS ends a connection without: it closes it, or says so in what is no HTTP."""


def is_ready(host: str, port: int, timeout_s: float = 3.0, *, is_secure: bool = False) -> bool:
    """Ask once; a server that cannot be reached is not ready."""
    try:
        return ask(host, port, timeout_s, is_secure=is_secure) == READY
    except (OSError, HTTPException):
        return False


def ask(host: str, port: int, timeout_s: float = 3.0, *, is_secure: bool) -> int:
    """Ask once, and give the status of the answer.

    Raises:
        OSError: If the server cannot be reached.
        HTTPException: If what it says is no HTTP.
    """
    connection = (
        HTTPSConnection(host, port, timeout=timeout_s, context=_context(host))
        if is_secure
        else HTTPConnection(host, port, timeout=timeout_s)
    )
    try:
        connection.request("GET", READY_PATH)
        return connection.getresponse().status
    finally:
        connection.close()


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Ask the server at the given address, or the one on this machine, and return the exit code."""
    own = f"127.0.0.1:{environment.get('INFERWIRE_HTTP_PORT', DEFAULT_PORT)}"
    given = arguments[0] if arguments else own
    host, _, port = given.removeprefix(TLS_SCHEME).rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65536):
        return _not_ready(f"the address is '{given}', expected HOST:PORT or https://HOST:PORT")
    # The environment is that of the server on this machine, and says nothing of another.
    is_secure = given.startswith(TLS_SCHEME) or (_is_local(host) and bool(environment.get("INFERWIRE_TLS_CERTIFICATE")))
    try:
        status = ask(host, int(port), is_secure=True) if is_secure else _ask_either(host, int(port))
    except (OSError, HTTPException) as error:
        return _not_ready(f"the server at {given} is not reached: {error or type(error).__name__}")
    return 0 if status == READY else _not_ready(f"the server at {given} is not ready: it answered {status}")


def _ask_either(host: str, port: int) -> int:
    """Ask without TLS, and on this machine with it where that is refused: flags may have told the server to speak it.

    Raises:
        OSError: If the server cannot be reached.
        HTTPException: If what it says is no HTTP.
    """
    try:
        return ask(host, port, is_secure=False)
    except _AS_OF_TLS:
        if not _is_local(host):
            raise
        try:
            return ask(host, port, is_secure=True)
        except ssl.SSLError:
            pass
        raise  # it has no TLS either


def _not_ready(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return 1


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
