"""Asks a server whether it is ready. Needs the standard library alone, so that a container can run it often.

`python -m inferwire_cli.health [HOST:PORT | https://HOST:PORT]` exits with 0 where it is. Where it
is not, it exits with 1 and says on stderr why. Without an address it asks the server that the environment's
INFERWIRE_HOST and INFERWIRE_HTTP_PORT place.
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
_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - a server's, which is asked here
"""Either takes IPv4, and only that is sure to be there: most containers have no address of IPv6, not even their own."""

TLS_SCHEME = "https://"
READY = 200
_TIMEOUT_S = 3.0

_AS_OF_TLS = (ConnectionResetError, BadStatusLine)
"""How a server with TLS ends a connection without: it closes it, or says so in what is no HTTP."""


def is_ready(host: str, port: int, *, is_secure: bool = False) -> bool:
    """Ask once; a server that cannot be reached is not ready."""
    try:
        return ask(host, port, is_secure=is_secure, is_own=_is_local(host)) == READY
    except (OSError, HTTPException):
        return False


def ask(host: str, port: int, *, is_secure: bool, is_own: bool) -> int:
    """Ask once, and give the status of the answer. A server of this machine need not show a certificate for its name.

    Raises:
        OSError: If the server cannot be reached.
        HTTPException: If what it says is no HTTP.
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
    # The environment is that of the server on this machine, and says nothing of another.
    is_own = not arguments or _is_local(host)
    is_secure = given.startswith(TLS_SCHEME) or (is_own and bool(environment.get("INFERWIRE_TLS_CERTIFICATE")))
    try:
        status = (
            ask(host, int(port), is_secure=True, is_own=is_own)
            if is_secure
            else _ask_either(host, int(port), is_own=is_own)
        )
    except (OSError, HTTPException) as error:
        is_other = isinstance(error, BadStatusLine) and not isinstance(error, OSError)  # whose text is what was said
        why = "what answers there speaks no HTTP" if is_other else error or type(error).__name__
        return _not_ready(f"the server at {given} is not reached: {why}")
    return 0 if status == READY else _not_ready(f"the server at {given} is not ready: it answered {status}")


def _own(environment: Mapping[str, str]) -> str:
    """Say where the server of this environment listens. A variable that is empty is as one that is not set."""
    host = environment.get("INFERWIRE_HOST") or DEFAULT_HOST
    host = DEFAULT_HOST if host in _EVERY_ADDRESS else host
    port = environment.get("INFERWIRE_HTTP_PORT") or DEFAULT_PORT
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _ask_either(host: str, port: int, *, is_own: bool) -> int:
    """Ask without TLS, and on this machine with it where that is refused: flags may have told the server to speak it.

    Raises:
        OSError: If the server cannot be reached.
        HTTPException: If what it says is no HTTP.
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
        # A machine that asks itself goes by no name that a certificate has, which is made for those who come from
        # elsewhere. Nobody is in between, and all that is sent is the question.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
