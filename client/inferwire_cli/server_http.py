"""A server's HTTP: how to connect to it, and the errors of connections and calls that fail."""

from __future__ import annotations

import json
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from errno import EMFILE, ENFILE
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPSConnection

from inferwire.errors import InferwireError, ServerUnavailable, unauthenticated
from inferwire.transport.credentials import Credentials
from inferwire_cli.http_address import HttpAddress

UNAUTHENTICATED = 401

CONNECT_TIMEOUT_S = 10.0
"""How long a connection may take to open: a server accepts no more of them than it serves at once."""

_OF_OTHER_ROOTS = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's codes for certificates that the right roots would have verified."""


class ServerHttp:
    """The HTTP of one server. Threads share it.

    Attributes:
        headers: The headers of every request.
    """

    def __init__(self, address: HttpAddress, credentials: Credentials) -> None:
        self.address = address
        self.headers = credentials.headers
        self._context = credentials.tls_context() if address.is_secure else None

    def __repr__(self) -> str:
        return f"<ServerHttp {self.address}>"

    def open(self, timeout_s: float) -> HTTPConnection:
        """Open a connection on which an answer may take so long.

        Raises:
            ServerUnavailable: If it cannot be opened, or not in time.
        """
        connection = self._connection(min(timeout_s, CONNECT_TIMEOUT_S))
        try:
            with self.told_where_missing():
                connection.connect()
        except BaseException:
            connection.close()
            raise
        connection.timeout = timeout_s
        connection.sock.settimeout(timeout_s)
        return connection

    @contextmanager
    def told_where_missing(self) -> Generator[None]:
        """Turn the errors of calls that get no HTTP answer into one that says why, and what to do.

        Raises:
            ServerUnavailable: In place of what was raised.
        """
        try:
            yield
        except (OSError, HTTPException, UnicodeError) as error:
            # A UnicodeError means that a host name is invalid, as with two dots in a row.
            raise self._unavailable(error) from error

    def refusal(self, status: int, content: bytes) -> InferwireError:
        """Make the exception of an answer that is an error."""
        try:
            sentence = str(json.loads(content)["error"])
        except (ValueError, KeyError, TypeError):
            sentence = f"what answers at {self.address} said {status} over HTTP, expected 200: is it the HTTP port?"
        if status == UNAUTHENTICATED:
            return unauthenticated(f"the server at {self.address} refuses the call: {sentence}")
        return InferwireError(sentence)

    def _connection(self, timeout_s: float) -> HTTPConnection:
        host, port = self.address.host, self.address.port
        if self._context is None:
            return HTTPConnection(host, port, timeout=timeout_s)
        return HTTPSConnection(host, port, timeout=timeout_s, context=self._context)

    def _unavailable(self, error: OSError | HTTPException | UnicodeError) -> ServerUnavailable:
        if isinstance(error, ssl.SSLError):
            return ServerUnavailable(self._why_no_tls(error))
        if isinstance(error, BadStatusLine) and not isinstance(error, OSError):
            return ServerUnavailable(f"what answers at {self.address} speaks no HTTP: give the server's HTTP port")
        if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
            return ServerUnavailable(
                f"no more connections to {self.address} can be opened: give less --concurrency, or raise the limit by "
                f"`ulimit -n` ({error})"
            )
        advice = "give --http-address, or start one with `inferwire serve`"
        if isinstance(error, ConnectionResetError) and not self.address.is_secure:
            advice = f"if it is one with TLS, which closes other connections, give --http-address {self.address.other}"
        return ServerUnavailable(f"no HTTP server answers at {self.address}; {advice} ({error})")

    def _why_no_tls(self, error: ssl.SSLError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            why = f"the certificate of the server at {self.address} is not trusted: {error.verify_message.rstrip('.')}"
            if error.verify_code not in _OF_OTHER_ROOTS:
                return why
            return (
                f"{why}; give --root-certificates a file with that of the authority which has signed it, or with the "
                "server's own where it has signed that itself"
            )
        if error.reason == "WRONG_VERSION_NUMBER":
            return (
                f"what answers at {self.address} speaks no TLS; if it is an inferwire server without, give "
                f"--http-address {self.address.other} ({error})"
            )
        return f"no HTTP server answers at {self.address}: TLS cannot be spoken with what does ({error})"
