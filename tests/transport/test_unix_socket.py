"""The gRPC port as a file: who may call, what is in the way, and what is left afterwards."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing
from errno import ENOSPC, EROFS
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from structlog.testing import capture_logs
from tests.transport.conftest import sessions_of

from inferwire_server.service import Services
from inferwire_server.transport.listening import CannotListenAt
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.unix_socket import socket_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grpc.sock"


def serving(services: Services, path: Path) -> GrpcServer:
    return GrpcServer(services, GrpcOptions(port=0, socket=path), sessions_of(services))


def mode_of(path: Path) -> str:
    return stat.filemode(path.lstat().st_mode) if path.exists() else ""


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def check(path: Path) -> int:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        answer = await call(health_pb2.HealthCheckRequest().SerializeToString())
    return health_pb2.HealthCheckResponse.FromString(answer).status


async def test_it_serves_callers_of_its_user_and_group_and_leaves_nothing(services: Services, path: Path) -> None:
    async with serving(services, path):
        assert mode_of(path) == "srw-rw----"
        assert await check(path) == health_pb2.HealthCheckResponse.SERVING
    assert mode_of(path) == ""


async def test_what_a_server_that_died_left_is_removed(services: Services, path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(path))
    async with serving(services, path):
        assert await check(path) == health_pb2.HealthCheckResponse.SERVING


async def test_a_server_that_lives_keeps_its_socket(services: Services, path: Path) -> None:
    async with serving(services, path):
        with pytest.raises(CannotListenAt, match="another process listens there"):
            async with serving(services, path):
                pass
        assert await check(path) == health_pb2.HealthCheckResponse.SERVING


async def test_a_file_that_is_no_socket_is_not_touched(services: Services, path: Path) -> None:
    write(path, "precious")
    with pytest.raises(
        CannotListenAt, match=r"cannot listen for gRPC at '.*': there is a file that is no socket.*--grpc-socket"
    ):
        async with serving(services, path):
            pass
    assert mode_of(path).startswith("-")


@pytest.mark.parametrize(
    ("name", "reason"), [("nowhere/grpc.sock", "is no folder"), ("a" * 120, "longer than the 107 bytes")]
)
async def test_a_path_that_cannot_be_is_said(services: Services, tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(CannotListenAt, match=reason):
        async with serving(services, tmp_path / name):
            pass


@pytest.fixture
def keeps_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the system remove no file, as on a volume that has become read-only."""

    def unlink(_path: Path, *, missing_ok: bool = False) -> None:
        del missing_ok
        raise OSError(EROFS, os.strerror(EROFS))

    monkeypatch.setattr(Path, "unlink", unlink)


@pytest.mark.usefixtures("keeps_files")
def test_a_socket_that_cannot_be_removed_does_not_keep_the_server_from_ending_as_ever(path: Path) -> None:
    with (
        closing(socket.socket(socket.AF_UNIX)) as listener,
        capture_logs() as logs,
        socket_file(path, lambda at: listener.bind(str(at)), "cannot listen"),
    ):
        pass
    assert [(line["event"], line["path"], line["reason"]) for line in logs] == [
        ("the socket's file stays", str(path), "Read-only file system")
    ]


@pytest.mark.usefixtures("keeps_files")
async def test_a_socket_left_over_that_cannot_be_removed_is_said(services: Services, path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(path))
    with pytest.raises(CannotListenAt, match=r"cannot listen for gRPC at '.*': Read-only file system; .*--grpc-socket"):
        async with serving(services, path):
            pass


def test_it_is_said_why_a_socket_cannot_be_made(path: Path) -> None:
    def bind(_path: Path) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    with (
        pytest.raises(CannotListenAt, match=r"cannot listen: No space left on device; .*--grpc-socket"),
        socket_file(path, bind, "cannot listen"),
    ):
        pass
