"""Measurements at rest: how long a start takes, and what idle sessions cost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from time import monotonic

from tests.bench import requests
from tests.bench.load import KnownAnswers
from tests.bench.networks import Network, lay_out
from tests.bench.processes import resident_bytes
from tests.bench.python_clients import grpc_unary
from tests.bench.stage import Stage, running_stage
from tests.bench.ways import Local

from inferwire_cli.health import is_ready
from inferwire_cli.server_process import end, has_ended_within, start
from inferwire_proto.inferwire.v1.inference_pb2 import SessionHello, SessionRequest

STARTS = 5
SESSIONS = 1000
WARM_UP = 20
SESSION = "/inferwire.v1.InferenceService/Session"
HELLO = SessionRequest(hello=SessionHello(client="bench")).SerializeToString()
FLOOR = "/bench.Floor/Stream64"
SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class AtRest:
    """The results.

    Attributes:
        start_s: From the start of the process to ready, with EfficientNet compiled before.
        shared_session: Bytes of the server for a session on one connection with the others.
        shared_stream: Bytes of a bare gRPC server for a stream on one connection with the others.
        own_session: Bytes for a session on a connection of its own.
        own_stream: Bytes for a bare stream on a connection of its own.
        alone_ms: The median latency of another client's calls without idle sessions.
        among_ms: The same with them.
    """

    start_s: float
    shared_session: float
    shared_stream: float
    own_session: float
    own_stream: float
    alone_ms: float
    among_ms: float


def measured() -> AtRest:
    """Measure a server at rest."""
    with TemporaryDirectory() as folder:
        (network,) = lay_out(Path(folder), ["digits_mlp"])
        # A server would use memory again that it used before, so each is measured on servers of its own.
        with running_stage(Path(folder)) as stage:
            alone_ms = _latency_ms(stage, network)
            shared_session = _bytes_each(stage.server.process.pid, stage.server.grpc_address, SESSION, HELLO, 1)
            shared_stream = _bytes_each(stage.floor.process.pid, stage.floor.address, FLOOR, b"hello", 1)
            with _idle_streams(stage.server.grpc_address, SESSION, HELLO, SESSIONS, 1):
                among_ms = _latency_ms(stage, network)
        with running_stage(Path(folder)) as stage:
            address = stage.server.grpc_address
            own_session = _bytes_each(stage.server.process.pid, address, SESSION, HELLO, SESSIONS)
            own_stream = _bytes_each(stage.floor.process.pid, stage.floor.address, FLOOR, b"hello", SESSIONS)
    return AtRest(start_time(), shared_session, shared_stream, own_session, own_stream, alone_ms, among_ms)


def start_time() -> float:
    """Start a server again and again with EfficientNet in its cache; give the median time until it is ready."""
    with TemporaryDirectory() as folder:
        lay_out(Path(folder) / "models", ["efficientnet_lite0"])
        flags = ("--device", "CPU", "--cache-dir", str(Path(folder) / "cache"))
        times = [_start(Path(folder) / "models", flags) for _ in range(STARTS + 1)]
    return median(times[1:])


def _start(repository: Path, flags: tuple[str, ...]) -> float:
    with TemporaryFile() as log:
        started = monotonic()
        server = start(repository, flags, log)
        try:
            while not is_ready(server.host, server.http_port):
                if has_ended_within(server, 0.005):
                    raise AssertionError("the server ended before it was ready")
            return monotonic() - started
        finally:
            end(server)


def _latency_ms(stage: Stage, network: Network) -> float:
    local = Local(network)
    request = requests.oip_grpc(network, local.expected)
    answers = KnownAnswers(request.read, local.expected, "OIP gRPC")
    call = grpc_unary(stage.server.grpc_address, request, answers, 1)
    call(SECONDS / 4)
    return call(SECONDS).p50_s * 1e3


def _bytes_each(pid: int, address: str, method: str, hello: bytes, connections: int) -> float:
    with _idle_streams(address, method, hello, WARM_UP, min(connections, WARM_UP)):  # takes memory that is needed once
        pass
    before = resident_bytes(pid)
    with _idle_streams(address, method, hello, SESSIONS, connections):
        return (resident_bytes(pid) - before) / SESSIONS


@contextmanager
def _idle_streams(address: str, method: str, hello: bytes, streams: int, connections: int) -> Generator[None]:
    """Keep streams open that have been answered once, on so many connections."""
    command = [sys.executable, "-m", "tests.bench.idle_streams", address, method, hello.hex()]
    with subprocess.Popen(
        [*command, str(streams), str(connections)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "open\n":
                raise AssertionError(f"{streams} idle streams on {connections} connections could not be opened")
            yield
        finally:
            process.kill()
