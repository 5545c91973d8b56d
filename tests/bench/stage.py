"""What runs while ways are measured: inferwire's server, and the floor beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inferwire_cli.server_process import ServerProcess, running_server


@dataclass(frozen=True, slots=True)
class Floor:
    """A running floor server."""

    process: subprocess.Popen[str]
    address: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The servers that ways talk to."""

    server: ServerProcess
    socket: Path
    floor: Floor


@contextmanager
def running_stage(repository: Path) -> Generator[Stage]:
    """Serve a model repository, on a Unix socket as well, with a floor beside it."""
    socket = repository / ".grpc.socket"
    with (
        running_server(repository, "--device", "CPU", "--grpc-socket", str(socket)) as server,
        running_floor() as floor,
    ):
        yield Stage(server, socket, floor)


@contextmanager
def running_floor() -> Generator[Floor]:
    """Run a floor server for as long as the block runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.floor_server"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield Floor(process, f"127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()
