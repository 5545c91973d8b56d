"""Sessions at a Unix socket of their own, beside that of gRPC."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

from inferwire_proto.frames import PREFACE
from inferwire_proto.unix_sockets import make_room
from inferwire_server.transport.accepting import Accepting, speaking
from inferwire_server.transport.taking_over import TakeOver
from inferwire_server.transport.unix_socket import socket_file

PREFACE_S = 10.0
"""How long a peer's preface is waited for, as its hello is then."""


@asynccontextmanager
async def sessions_at(path: Path, take_over: TakeOver, preface_s: float = PREFACE_S) -> AsyncGenerator[None, None]:
    """Listen at a path for sessions until the block is left.

    Raises:
        CannotListenAt: If it cannot.
    """
    listener = socket.socket(socket.AF_UNIX)
    cannot = f"cannot make '{path}', the sessions' socket beside --grpc-socket"
    with listener, socket_file(path, lambda at: listener.bind(os.fspath(at)), cannot):
        accepting = Accepting(listener, speaking(partial(_Opening, take_over, preface_s)))
        try:
            yield
        finally:
            await accepting.end()


class _Opening(asyncio.Protocol):
    """A connection until it has said the preface."""

    def __init__(self, take_over: TakeOver, preface_s: float) -> None:
        self._take_over = take_over
        self._preface_s = preface_s
        self._said = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        self._transport = cast("asyncio.Transport", transport)
        make_room(transport.get_extra_info("socket"))
        self._limit = asyncio.get_running_loop().call_later(self._preface_s, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        del exc
        self._limit.cancel()

    def data_received(self, data: bytes) -> None:
        """Hand the connection over once it has said the preface; end it where it says anything else."""
        self._said += data
        if self._said.startswith(PREFACE):
            self._limit.cancel()
            self._take_over(self._transport, self._said[len(PREFACE) :])
        elif not PREFACE.startswith(self._said):
            self._transport.abort()
