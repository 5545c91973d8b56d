"""Servers as processes, a model that takes long, and what their logs say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import openvino
from openvino import opset13 as op
from tests.waiting import LIMIT_S, wait_until

from inferwire import Timeouts
from inferwire_cli.server_process import (
    HOST,
    ServerProcess,
    end,
    free_ports,
    has_ended_within,
    tail,
    wait_until_ready,
)

PATIENT = Timeouts(connect_s=LIMIT_S, socket_s=LIMIT_S)
"""For a client whose session has to be on a socket, however long a busy machine takes to answer there."""


def save_slow_model(repository: Path, products: int, rows: int = 1024, name: str = "slow") -> None:
    """Save a model that takes long: a few milliseconds for each product of 1024 rows, and eight times that for 2048."""
    data = op.parameter([1], np.float32, name="data")
    node: Any = op.broadcast(data, op.constant(np.array([rows, rows], np.int64)))
    square = node
    for _ in range(products):
        node = op.tanh(op.matmul(node, square, transpose_a=False, transpose_b=False))
    out = op.reduce_max(node, op.constant(np.array([0, 1], np.int64)))
    runtime: Any = openvino
    openvino.save_model(runtime.Model([out], [data], name), repository / name / "1" / f"{name}.xml")


@contextmanager
def started(
    *flags: str, grpc_port: int = 0, http_port: int = 0, temporary: Path | None = None, folder: Path | None = None
) -> Generator[tuple[ServerProcess, IO[bytes]]]:
    """Start a server without waiting for it; at the end it is gone, whatever happens.

    It leads a group of processes, and has its temporary files in a folder if one is given. Started in another folder,
    it imports nothing from there, as the installed command does not.
    """
    free = iter({*free_ports(4)} - {http_port, grpc_port})
    http_port, grpc_port = http_port or next(free), grpc_port or next(free)
    server_ports = ["--http-port", str(http_port), "--grpc-port", str(grpc_port)]
    environment = os.environ | ({} if temporary is None else {"TMPDIR": str(temporary)})
    with TemporaryFile() as log:
        command = [sys.executable, "-P", "-m", "inferwire_cli", "serve", *server_ports, *flags]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, process_group=0, cwd=folder
        )
        try:
            yield ServerProcess(process, grpc_port, http_port), log
        finally:
            process.kill()
            process.wait()


@contextmanager
def serving(repository: Path, port: int, *flags: str) -> Generator[ServerProcess]:
    """Serve on a certain port, when ready; at the end the server is gone, whatever happens."""
    with started("--host", HOST, "--model-repository", str(repository), *flags, grpc_port=port) as (server, log):
        wait_until_ready(server, log)
        yield server
        end(server)


def log_lines(log: IO[bytes]) -> list[dict[str, Any]]:
    """Read the events at the end of a server's log."""
    return [json.loads(line) for line in tail(log).splitlines() if line.startswith("{")]


def log_line(log: IO[bytes], event: str) -> dict[str, Any]:
    """Find an event in a server's log."""
    return next(line for line in log_lines(log) if line["event"] == event)


def wait_for_line(server: ServerProcess, log: IO[bytes], event: str) -> None:
    """Wait until a server has logged an event."""
    wait_for(server, lambda: event in tail(log), log)


def insist(server: ServerProcess) -> None:
    """Send the signal to end again and again until the server has ended: right behind the first it says the same."""

    def has_ended() -> bool:
        server.process.terminate()
        return has_ended_within(server, 0.1)

    wait_until(has_ended)


def wait_for(server: ServerProcess, holds: Callable[[], bool], log: IO[bytes] | None = None) -> None:
    """Wait until something is so, which it never is once the server has ended."""

    def is_so() -> bool:
        found = holds()
        assert found or not has_ended_within(server, 0.01), tail(log) if log else "the server has ended"
        return found

    wait_until(is_so)
