"""Accepts the connections that come to a listening socket: `Accepting`.

Owns those that are on their way in. The event loop's own servers accept one connection in each turn of the loop, and a
turn takes as long as all that came during the last: at a busy server the last of a hundred newcomers, which may be a
health probe, would wait for a hundred turns.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TypeAlias

import structlog

from inferwire_server.seldom import Seldom
from inferwire_server.transport.listening import BACKLOG

log = structlog.stdlib.get_logger()

_MOST_AT_ONCE = 64
"""The most connections that are accepted in a turn of the loop: so many take no longer than some ten small requests."""

_AGAIN_S = 0.1
"""How long to wait before trying again if no connection can be accepted."""

_FIRST_BYTE_S = 60.0
"""How long a peer may say nothing where it is to speak TLS first. A handshake that has begun may take as long."""

_HANDSHAKE = b"\x16"
"""What TLS begins with."""

LetIn: TypeAlias = Callable[[socket.socket], Coroutine[None, None, None]]
"""Takes care of a connection that has been accepted."""


class Accepting:
    """Accepts the connections that come to a socket, which it owns from now on, until it is closed.

    If none can be accepted, most likely because the process has too many files open, they wait. `clock` shows the time
    in seconds, by which the log says so once a minute.
    """

    def __init__(self, listener: socket.socket, let_in: LetIn, clock: Callable[[], float] = monotonic) -> None:
        self._listener = listener
        self._let_in = let_in
        self._loop = asyncio.get_running_loop()
        self._entering: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        self._tells = Seldom(clock)
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._resume()

    def __repr__(self) -> str:
        return f"<Accepting: {len(self._entering)} on their way in>"

    def close(self) -> None:
        """Accept no more connections. Those that have come, or are on their way in, come in.

        The system resets those that have come and are not accepted, whatever was sent on them.
        """
        if self._is_open:
            for _ in range(0, BACKLOG, _MOST_AT_ONCE):
                if self._resuming is not None or not self._take():
                    break
            self._stop()

    async def end(self) -> None:
        """Accept no more connections, and drop those that have come or are on their way in."""
        if self._is_open:
            self._stop()
        # The task of a connection that was accepted in this very turn has not begun: if it were cancelled before that,
        # nothing would close the connection.
        await asyncio.sleep(0)
        for task in self._entering:
            task.cancel()
        await asyncio.gather(*self._entering, return_exceptions=True)

    @property
    def _is_open(self) -> bool:
        """Whether the socket is open: one that is closed has no number any more."""
        return self._listener.fileno() >= 0

    def _stop(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _resume(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._listener, self._take)

    def _take(self) -> bool:
        """Accept connections, and say whether there may be more of them."""
        for _ in range(_MOST_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return False
            except ConnectionAbortedError:
                # The peer was gone before its connection was accepted.
                continue
            except OSError as error:
                self._pause(error)
                return False
            connection.setblocking(False)
            task = self._loop.create_task(self._let_in(connection))
            self._entering.add(task)
            task.add_done_callback(self._entering.discard)
        return True

    def _pause(self, error: OSError) -> None:
        self._loop.remove_reader(self._listener)
        self._resuming = self._loop.call_later(_AGAIN_S, self._resume)
        if self._tells.is_due():
            log.warning("new connections have to wait", reason=os.strerror(error.errno or 0))


New: TypeAlias = Callable[[], asyncio.BaseProtocol]
"""Makes a protocol for a connection."""


def speaking(new: New, tls: ssl.SSLContext | None = None, plain: New | None = None) -> LetIn:
    """Begin a protocol on each connection; with `tls`, once it is encrypted, or `plain` where its peer speaks none."""
    return partial(_speak, new, tls, plain if tls is not None else None)


async def _speak(new: New, tls: ssl.SSLContext | None, plain: New | None, connection: socket.socket) -> None:
    # This fails if the peer is gone, or does not speak TLS as this side does, which it was told. The connection is then
    # closed.
    with suppress(OSError):
        if plain is not None and not await _begins_tls(connection):
            new, tls = plain, None
        await asyncio.get_running_loop().connect_accepted_socket(new, connection, ssl=tls)


async def _begins_tls(connection: socket.socket) -> bool:
    """Wait for the first byte, which is left to be received, and say whether TLS begins with it, or nothing comes.

    Raises:
        OSError: The peer is gone, or has said nothing for too long. The connection is then closed.
    """
    try:
        await readable(connection, _FIRST_BYTE_S)
        return connection.recv(1, socket.MSG_PEEK) in (_HANDSHAKE, b"")
    except BaseException:
        connection.close()
        raise


async def readable(connection: socket.socket, limit_s: float) -> None:
    """Wait until something has come on a connection, or its peer is gone.

    Raises:
        TimeoutError: Neither within the limit.
    """
    loop, has_come = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, has_come.set)
    try:
        async with asyncio.timeout(limit_s):
            await has_come.wait()
    finally:
        loop.remove_reader(connection)
