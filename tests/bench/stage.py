"""The servers that run while ways are measured: inferwire's, and the floor beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from tests.bench.networks import Network

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
        server: This project's server.
        socket: The Unix socket where it listens besides its port.
        memory: The prefix of the names of shared memory that it may read.
        floor: The bare gRPC server.
        two_workers: This server again, with two workers, on its ports alone; only if the network is tiny.
    """

    server: ServerProcess
    socket: Path
    memory: str
    floor: Floor
    two_workers: ServerProcess | None

    def of_two_workers(self) -> Stage:
        """Give the stage with the server of two workers in the place of the ordinary one."""
        if self.two_workers is None:
            raise AssertionError("there is no server of two workers on this stage; this is a bug")
        return replace(self, server=self.two_workers)


@contextmanager
def running_stage(repository: Path, network: Network | None = None) -> Generator[Stage]:
    """Serve a model repository, on a Unix socket and by shared memory as well, with a floor beside it.

    If its network is given and tiny, two workers serve it as well.
    """
    socket, memory = repository / ".grpc.socket", f"inferwire-bench-{token_hex(4)}-"
    flags = ("--device", "CPU", "--grpc-socket", str(socket), "--shared-memory", f"/{memory}")
    try:
        with (
            running_server(repository, *flags) as server,
            two_workers(repository, network) as two,
            running_floor() as floor,
        ):
            yield Stage(server, socket, memory, floor, two)
    finally:
        for left in SHARED_MEMORY.glob(f"{memory}*"):
            left.unlink()


def two_workers(repository: Path, network: Network | None) -> AbstractContextManager[ServerProcess | None]:
    """Serve with two workers for as long as the block runs, if the network is tiny: others fill the cores with one.

    A server costs next to nothing while another is measured.
    """
    if network is None or not network.is_tiny:
        return nullcontext()
    return running_server(repository, "--device", "CPU", "--workers", "2")


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
