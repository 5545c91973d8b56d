"""Hands connections over that reached another worker than the one that their client means, as shared file descriptors.

What was received on a connection travels with it, so that its client does not notice.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import structlog

from inferwire_proto.errors import Code
from inferwire_proto.frames import OPENING_BYTES
from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.transport.accepting import Accepting, readable
from inferwire_server.transport.protocol_switch import TakeOver
from inferwire_server.transport.session.socket_session import Give

log = structlog.stdlib.get_logger()

LIMIT_S = 1.0
"""How long a worker that has connected to hand something over may take to send it: it has it at hand."""


def give_to(crew: Crew, epoch: str) -> Give | None:
    """Say how a worker gives a connection to the worker whose epoch this is; None if that is no other."""
    owner = crew.owner_of(epoch)
    return None if owner == crew.index else partial(_give, crew, owner)


@asynccontextmanager
async def taking_connections(crew: Crew, take_over: TakeOver, limit_s: float = LIMIT_S) -> AsyncGenerator[None, None]:
    """Take the connections that other workers hand over, until the block is left."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(crew.connections_of(crew.index))
        accepting = Accepting(listener, partial(_receive, take_over, limit_s))
        try:
            yield
        finally:
            await accepting.end()


async def _receive(take_over: TakeOver, limit_s: float, visitor: socket.socket) -> None:
    """Receive a connection from a process that may enter the folder of the listener's socket: of this server's user."""
    try:
        with visitor:
            await readable(visitor, limit_s)
            came, files, _, _ = socket.recv_fds(visitor, OPENING_BYTES, 1)
        if not files:
            raise ConnectionError("too many files are open" if came else "the other worker has gone")
        await _take(take_over, files[0], came)
    except OSError as error:
        log.warning("a connection from another worker did not come", reason=str(error) or repr(error))


async def _take(take_over: TakeOver, file: int, came: bytes) -> None:
    """Take the connection of a file descriptor, and what was received on it."""
    try:
        connection = socket.socket(fileno=file)
    except OSError:
        os.close(file)
        raise
    try:
        await asyncio.get_running_loop().connect_accepted_socket(partial(_Opening, take_over, came), connection)
    except OSError:
        connection.close()
        raise


class _Opening(asyncio.Protocol):
    """A connection until it is taken over, which is at once."""

    def __init__(self, take_over: TakeOver, came: bytes) -> None:
        self._take_over = take_over
        self._came = came

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection over."""
        self._take_over(cast("asyncio.Transport", transport), self._came)


def _give(crew: Crew, worker: int, transport: asyncio.Transport, came: bytes) -> None:
    """Give a connection to another worker. This process may close its own descriptor then.

    Raises:
        ServingError: INVALID_INPUT if too much was received on it; SHUTTING_DOWN if that worker is not there.
    """
    if len(came) > OPENING_BYTES:
        raise invalid_input(
            f"{len(came)} bytes have come with the hello, expected at most {OPENING_BYTES} before the welcome"
        )
    connection: socket.socket = transport.get_extra_info("socket")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as way:
            way.setblocking(False)
            way.connect(crew.connections_of(worker))
            socket.send_fds(way, [came], [connection.fileno()])
    except OSError as error:
        sentence = f"the worker that has the session does not take the connection: {error}"
        raise ServingError(Code.SHUTTING_DOWN, sentence) from error
