"""Asks a server whether it is ready. Needs only the standard library, so that a container can run it often.

`python -m inferwire_cli.health [HOST:PORT | https://HOST:PORT]` exits with 0 if it is. If it
is not, it exits with 1 and says on stderr why. Without an address it asks the server whose place the environment's
INFERWIRE_HOST and INFERWIRE_HTTP_PORT give.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPSConnection

READY_PATH = "/v2/health/ready"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = "8000"
_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - a server's, only compared with here
"""A server at either takes IPv4, which every machine has: most containers have no IPv6, not even for loopback."""

TLS_SCHEME = "https://"
READY = 200
_TIMEOUT_S = 3.0

_AS_OF_TLS = (ConnectionResetError, BadStatusLine)
"""How a server with TLS ends a connection without it: it closes it, or answers with a TLS alert, not HTTP."""


def is_ready(host: str, port: int, *, is_secure: bool = False) -> bool:
    """Ask once; a server that cannot be reached is not ready."""
    try:
        return ask(host, port, is_secure=is_secure, is_own=_is_local(host)) == READY
    except (OSError, HTTPException):
        return False


def ask(host: str, port: int, *, is_secure: bool, is_own: bool) -> int:
    """Ask once, and give the status of the answer. The certificate of a server on this machine is not verified.

    Raises:
        OSError: If the server cannot be reached.
        HTTPException: If its answer is no HTTP.
    """
    connection = (
        HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=_context(is_own=is_own))
        if is_secure
        else HTTPConnection(host, port, timeout=_TIMEOUT_S)
    )
    try:
        connection.request("GET", READY_PATH)
        return connection.getresponse().status
    finally:
        connection.close()


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Ask the server at the given address, or the one on this machine, and return the exit code."""
    given = arguments[0] if arguments else _own(environment)
    host, _, port = given.removeprefix(TLS_SCHEME).rpartition(":")
    host = host.strip("[]")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65536):
        return _not_ready(f"the address is '{given}', expected HOST:PORT or https://HOST:PORT")
    # The environment is that of the server on this machine, and does not apply to another.
    is_own = not arguments or _is_local(host)
    is_secure = given.startswith(TLS_SCHEME) or (is_own and bool(environment.get("INFERWIRE_TLS_CERTIFICATE")))
    try:
        status = (
            ask(host, int(port), is_secure=True, is_own=is_own)
            if is_secure
            else _ask_either(host, int(port), is_own=is_own)
        )
    except (OSError, HTTPException) as error:
        is_other = isinstance(error, BadStatusLine) and not isinstance(error, OSError)  # whose text is the answer
        why = "what answers there speaks no HTTP" if is_other else error or type(error).__name__
        return _not_ready(f"the server at {given} is not reached: {why}")
    return 0 if status == READY else _not_ready(f"the server at {given} is not ready: it answered {status}")


def _own(environment: Mapping[str, str]) -> str:
    """Give the address where the server of this environment listens. An empty variable counts as not set."""
    host = environment.get("INFERWIRE_HOST") or DEFAULT_HOST
    host = DEFAULT_HOST if host in _EVERY_ADDRESS else host
    port = environment.get("INFERWIRE_HTTP_PORT") or DEFAULT_PORT
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _ask_either(host: str, port: int, *, is_own: bool) -> int:
    """Ask without TLS; if a server on this machine refuses that, ask with it, since flags may have given it TLS.

    Raises:
        OSError: If the server cannot be reached.
        HTTPException: If its answer is no HTTP.
    """
    try:
        return ask(host, port, is_secure=False, is_own=is_own)
    except _AS_OF_TLS:
        if not is_own:
            raise
        try:
            return ask(host, port, is_secure=True, is_own=is_own)
        except ssl.SSLError:
            pass
        raise  # it has no TLS either


def _not_ready(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return 1


def _is_local(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _context(*, is_own: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if is_own:
        # The certificate is made for clients on other machines, and does not have the name by which a machine calls
        # itself. Within the machine nothing can intercept the connection, and only the question is sent.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
