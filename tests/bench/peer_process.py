"""A peer's server: its environment, made once outside the project, and its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import monotonic

from tests.bench.load import KnownAnswers
from tests.bench.networks import Array, Network
from tests.bench.peer_catalogue import PEERS, Interface
from tests.bench.peers.served import SERVED, Served
from tests.bench.requests import Request
from tests.environments import python_of

from inferwire_cli.server_process import ServerProcess, end, free_ports, has_ended_within, tail

FOLDER = Path(__file__).with_name("peers")
START_LIMIT_S = 120.0


def cache() -> Path:
    """Give the folder of the peers' environments."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "inferwire/bench"


def python(name: str) -> Path:
    """Give the Python that has the packages of a peer, and make it first if it does not exist."""
    folder = cache() / (PEERS[name].environment or name)
    requirements = FOLDER / folder.name / "requirements.txt"

    def fill(interpreter: Path) -> None:
        install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
        subprocess.run(install, check=True)

    return python_of(folder, requirements.read_text(), fill)


@contextmanager
def running_peer(name: str, network: Network, expected: Array) -> Generator[ServerProcess]:
    """Serve a network by a peer for as long as the block runs. It answers right when the block begins."""
    interpreter = python(name)
    http_port, grpc_port = free_ports(2)
    what = Served(
        path=str(network.path),
        name=network.name,
        input=network.input,
        output=network.output,
        dtype=network.sample.dtype.name,
        shape=list(network.sample.shape[1:]),
        classes=expected.shape[-1],
        http_port=http_port,
        grpc_port=grpc_port,
        is_batched=network.is_batched and PEERS[name].batches,
    )
    with TemporaryDirectory() as folder, TemporaryFile() as log:
        added = {SERVED: json.dumps(asdict(what)), "PYTHONPATH": str(FOLDER), "TMPDIR": folder}
        process = subprocess.Popen(
            [interpreter, FOLDER / name / "server.py"],
            cwd=FOLDER / name,
            env=os.environ | added,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
        )
        server = ServerProcess(process, grpc_port, http_port)
        try:
            for interface in (interface for interface in PEERS[name].interfaces if interface.takes(network)):
                request = interface.theirs(network, expected)
                _wait_until_right(server, interface, request, KnownAnswers(request.read, expected, name))
            yield server
        except Exception as error:
            raise AssertionError(f"{PEERS[name].title}: {error}\n{tail(log)}") from error
        finally:
            end(server)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # whom it has left behind: some leave their workers


def _wait_until_right(server: ServerProcess, interface: Interface, request: Request, answers: KnownAnswers) -> None:
    """Ask until it answers, and check what it does."""
    give_up = monotonic() + START_LIMIT_S
    while True:
        try:
            answer = interface.ask(interface.address(server), request)
            break
        except Exception as error:
            if has_ended_within(server, 0.2) or monotonic() > give_up:
                raise AssertionError(f"it does not answer over {interface.name}: {error}") from error
    answers.check(answer)
