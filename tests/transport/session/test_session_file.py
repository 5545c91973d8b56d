"""Sessions at a Unix socket: who may call there, and what becomes of those who say something else."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import stat
import sys
import termios
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.transport.session.carriers import LIMIT_S, SocketStream, until

from inferwire_proto.frames import PREFACE
from inferwire_server.service import Services
from inferwire_server.transport.listening import CannotListenAt
from inferwire_server.transport.session.session_file import sessions_at
from inferwire_server.transport.session.socket_sessions import SocketSessions


async def test_its_user_and_group_may_call_and_nothing_is_left(sockets: SocketSessions, tmp_path: Path) -> None:
    path = tmp_path / "here"
    async with sessions_at(path, sockets.take_over):
        assert stat.filemode(path.lstat().st_mode) == "srw-rw----"
    assert not path.exists()


async def test_another_servers_socket_is_not_taken(
    sockets: SocketSessions, session_file: Path, services: Services
) -> None:
    with pytest.raises(CannotListenAt, match="another process listens there"):
        await sessions_at(session_file, sockets.take_over).__aenter__()
    stream = await SocketStream.connect_to_file(session_file, services.health.identity.epoch)
    assert (await stream.open()).session_id
    stream.leave()


async def test_a_path_that_is_too_long_beside_that_of_grpc_says_whose_it_is(
    sockets: SocketSessions, tmp_path: Path
) -> None:
    path = tmp_path / ("a" * 120)
    with pytest.raises(CannotListenAt) as caught:
        await sessions_at(path, sockets.take_over).__aenter__()
    assert str(caught.value) == (
        f"cannot make '{path}', the sessions' socket beside --grpc-socket: "
        "the path is longer than the 107 bytes a socket's may have; choose another path with --grpc-socket"
    )


async def test_many_may_wait_to_be_taken(sockets: SocketSessions, tmp_path: Path) -> None:
    path = tmp_path / "here"
    async with sessions_at(path, sockets.take_over):
        with ExitStack() as callers:
            # Nobody is taken meanwhile: the loop that would has no turn.
            for _ in range(200):
                caller = callers.enter_context(socket.socket(socket.AF_UNIX))
                caller.setblocking(False)
                caller.connect(str(path))


async def test_it_holds_more_of_what_is_sent_than_by_itself(tmp_path: Path) -> None:
    path, rooms = tmp_path / "here", asyncio.Queue[int]()

    def take_over(transport: asyncio.Transport, _data: bytes) -> None:
        taken: socket.socket = transport.get_extra_info("socket")
        rooms.put_nowait(taken.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
        transport.abort()

    async with sessions_at(path, take_over), asyncio.timeout(LIMIT_S):
        stream = await SocketStream.connect_to_file(path, "")
        with socket.socket(socket.AF_UNIX) as plain:
            assert await rooms.get() > plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        stream.leave()


def is_read(writer: asyncio.StreamWriter) -> bool:
    """Whether the peer at a Unix socket has read all that was written: until then the system has it."""
    unread = fcntl.ioctl(writer.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(unread, sys.byteorder) == 0


async def test_the_preface_may_come_in_pieces(session_file: Path, services: Services) -> None:
    stream = await SocketStream.connect_to_file(session_file, services.health.identity.epoch, preface=PREFACE[:5])
    await until(lambda: is_read(stream.writer))
    stream.writer.write(PREFACE[5:])
    assert (await stream.open()).session_id
    stream.leave()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0", PREFACE[:-1] + b"x"])
async def test_whoever_says_something_else_is_cut_off(session_file: Path, said: bytes) -> None:
    stream = await SocketStream.connect_to_file(session_file, "", preface=said)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises((ConnectionResetError, EOFError)):
            assert await stream.reader.readexactly(1)
    stream.leave()


@pytest.mark.parametrize("said", [b"", PREFACE[:-1]])
async def test_whoever_does_not_say_the_preface_is_not_waited_for(
    sockets: SocketSessions, tmp_path: Path, said: bytes
) -> None:
    path = tmp_path / "here"
    async with sessions_at(path, sockets.take_over, preface_s=0.0):
        stream = await SocketStream.connect_to_file(path, "", preface=said)
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises((ConnectionResetError, EOFError)):
                assert await stream.reader.readexactly(1)
        stream.leave()
