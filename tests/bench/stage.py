"""What runs while ways are measured: inferwire's server, and the floor beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from inferwire_cli.server_process import ServerProcess, running_server

SHARED_MEMORY = Path("/dev/shm")
"""Where the system keeps shared memory, a file for each name."""


@dataclass(frozen=True, slots=True)
class Floor:
    """A running floor server."""

    process: subprocess.Popen[str]
    address: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The servers that ways talk to.

    Attributes:
        server: This one.
        socket: Where it listens besides its port.
        memory: What the names of shared memory it may read begin with.
        floor: The bare gRPC server.
    """

    server: ServerProcess
    socket: Path
    memory: str
    floor: Floor


@contextmanager
def running_stage(repository: Path) -> Generator[Stage]:
    """Serve a model repository, on a Unix socket and by shared memory as well, with a floor beside it."""
    socket, memory = repository / ".grpc.socket", f"inferwire-bench-{token_hex(4)}-"
    flags = ("--device", "CPU", "--grpc-socket", str(socket), "--shared-memory", f"/{memory}")
    try:
        with running_server(repository, *flags) as server, running_floor() as floor:
            yield Stage(server, socket, memory, floor)
    finally:
        for left in SHARED_MEMORY.glob(f"{memory}*"):
            left.unlink()


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
