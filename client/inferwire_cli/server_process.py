"""A server that a command starts for itself: on free ports, ready before it is used, ended whatever happens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryFile
from time import monotonic
from typing import IO

from inferwire_cli.health import is_ready

HOST = "127.0.0.1"
START_LIMIT_S = 120.0
STOP_LIMIT_S = 40.0
LOG_TAIL_BYTES = 4000

PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections and to programs that ask for any port."""

NOT_INHERITED = ("INFERWIRE_API_KEY_FILE", "INFERWIRE_TLS_CERTIFICATE", "INFERWIRE_TLS_KEY")
"""Variables of the environment that are meant for another server, and would keep the command itself out of its own."""


class ServerProcessError(Exception):
    """The server did not start, or did not end as it should; the message carries the end of its log."""


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server and where it listens."""

    process: subprocess.Popen[bytes]
    grpc_port: int
    http_port: int
    host: str = HOST
    is_secure: bool = False

    @property
    def grpc_address(self) -> str:
        """Where `Core` connects to."""
        return f"{'grpcs://' if self.is_secure else ''}{self.host}:{self.grpc_port}"

    @property
    def http_address(self) -> str:
        """Where its HTTP listens."""
        return f"{'https://' if self.is_secure else ''}{self.host}:{self.http_port}"


@contextmanager
def running_server(model_repository: Path | None, *flags: str) -> Generator[ServerProcess]:
    """Serve a model repository, if any, for as long as the block runs, with further flags of `inferwire serve`.

    Raises:
        ServerProcessError: The server did not become ready, or did not end with exit code 0.
    """
    with TemporaryFile() as log:
        server = start(model_repository, flags, log)
        try:
            wait_until_ready(server, log)
            yield server
        except BaseException:
            end(server)
            raise
        code = end(server)
        if code != 0:
            raise ServerProcessError(f"the server ended with exit code {code}, expected 0\n{tail(log)}")


def start(model_repository: Path | None, flags: Sequence[str], log: IO[bytes]) -> ServerProcess:
    """Start the server in a process group that the terminal's Ctrl-C does not reach: only `end` ends it."""
    grpc_port, http_port = free_ports(2)
    where = ["--host", HOST, "--grpc-port", str(grpc_port), "--http-port", str(http_port)]
    what = [*([] if model_repository is None else ["--model-repository", str(model_repository)]), *flags]
    command = [sys.executable, "-m", "inferwire_cli", "serve", *where, *what]
    environment = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    process = subprocess.Popen(  # noqa: S603
        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
    )
    return ServerProcess(process, grpc_port, http_port, is_secure="--tls-certificate" in flags)


def free_ports(count: int) -> list[int]:
    """Find different ports that no program listens on, and that the system gives to none before a server does."""
    found: list[int] = []
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.create_server((HOST, port)):
            found.append(port)
        if len(found) == count:
            return found
    raise ServerProcessError(f"somebody listens on nearly all ports from {PORTS[0]} to {PORTS[-1]}")


def wait_until_ready(server: ServerProcess, log: IO[bytes]) -> None:
    """Ask the health endpoint until it says ready; a server that ends meanwhile is an error."""
    give_up = monotonic() + START_LIMIT_S
    while not is_ready(server.host, server.http_port, is_secure=server.is_secure):
        if has_ended_within(server, 0.05):
            code = server.process.returncode
            raise ServerProcessError(f"the server ended with exit code {code} before it was ready\n{tail(log)}")
        if monotonic() > give_up:
            raise ServerProcessError(f"the server was not ready after {START_LIMIT_S:.0f} s\n{tail(log)}")


def has_ended_within(server: ServerProcess, limit_s: float) -> bool:
    """Wait for the process to end, no longer than the limit."""
    try:
        server.process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def end(server: ServerProcess) -> int:
    """Ask the server to end and return its exit code. Past the limit, or on another Ctrl-C, kill it."""
    server.process.terminate()
    try:
        has_ended_within(server, STOP_LIMIT_S)
    finally:
        server.process.kill()  # does nothing to a process that has ended
    return server.process.wait()


def tail(log: IO[bytes]) -> str:
    """Read the end of the server's log."""
    size = log.seek(0, 2)
    log.seek(max(0, size - LOG_TAIL_BYTES))
    return log.read().decode(errors="replace").strip()
