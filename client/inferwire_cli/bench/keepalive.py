"""Whether a server that is silent over HTTP is still there, which an HTTP connection does not tell as gRPC's does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection

from inferwire.errors import ServerUnavailable
from inferwire.transport.timeouts import Timeouts
from inferwire_cli.health import READY_PATH
from inferwire_cli.server_http import ServerHttp

TIMEOUTS = Timeouts()


class Keepalive:
    """Asks a server that has answered nothing for a while whether it is there, on a connection of its own.

    If it is not, the calls that wait for answers are interrupted by closing their connections. Threads share it.
    """

    def __init__(self, http: ServerHttp, timeouts: Timeouts = TIMEOUTS) -> None:
        self._http = http
        self._timeouts = timeouts
        self._connections: set[HTTPConnection] = set()
        self._answers = 0
        self._has_ended = threading.Event()
        self._lost: ServerUnavailable | None = None

    def __repr__(self) -> str:
        state = "looking" if self._lost is None else "lost"
        return f"<Keepalive of {self._http.address}: {state}, {len(self._connections)} connections>"

    @contextmanager
    def connection(self, timeout_s: float) -> Generator[HTTPConnection]:
        """Open a connection that is closed when the server is lost.

        Raises:
            ServerUnavailable: If it cannot be opened.
        """
        connection = self._http.open(timeout_s)
        self._connections.add(connection)
        try:
            yield connection
        finally:
            self._connections.discard(connection)
            hang_up(connection)

    @contextmanager
    def told_where_missing(self) -> Generator[None]:
        """Count the answer that the block waits for; if it does not come, say why.

        Raises:
            ServerUnavailable: In place of what was raised.
        """
        try:
            with self._http.told_where_missing():
                yield
        except ServerUnavailable as error:
            if self._lost is None:
                raise
            raise self._lost from error
        self._answers += 1  # a count that is lost between threads does not matter

    @contextmanager
    def looked_for(self) -> Generator[None]:
        """Watch the server as long as the block runs."""
        threading.Thread(target=self._look, daemon=True).start()
        try:
            yield
        finally:
            self._has_ended.set()

    def _look(self) -> None:
        before = -1
        while not self._has_ended.wait(self._timeouts.keepalive_s):
            if self._answers == before and not self._is_there():
                for connection in tuple(self._connections):
                    hang_up(connection)
                return
            before = self._answers

    def _is_there(self) -> bool:
        """Ask for an answer, and take any: another kind of server may have other paths."""
        try:
            with closing(self._http.open(self._timeouts.answer_s)) as asking, self._http.told_where_missing():
                asking.request("GET", READY_PATH, headers=self._http.headers)
                asking.getresponse().read()
        except ServerUnavailable as error:
            silent_s = self._timeouts.keepalive_s + self._timeouts.answer_s
            self._lost = ServerUnavailable(
                f"the server at {self._http.address} is there no more, or hangs: it has answered nothing for "
                f"{silent_s:.0f} s or longer ({error.__cause__})"
            )
            return False
        return True


def hang_up(connection: HTTPConnection) -> None:
    """Close a connection, even if a thread still reads from it that is no longer waited for."""
    opened = connection.sock
    if opened is not None:  # pyright: ignore[reportUnnecessaryComparison]
        with suppress(OSError):
            opened.shutdown(socket.SHUT_RDWR)
    connection.close()
