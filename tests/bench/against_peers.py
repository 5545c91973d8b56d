"""A peer and this server under the same load in alternating rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.load import KnownAnswers, Way
from tests.bench.networks import lay_out
from tests.bench.peer_catalogue import PEERS, Interface
from tests.bench.peer_process import running_peer
from tests.bench.requests import Request
from tests.bench.rounds import Rows, run
from tests.bench.stage import two_workers
from tests.bench.ways import Local

from inferwire_cli.server_process import ServerProcess, running_server

USUAL = {"digits_mlp": (1, 16), "digits_mlp_batched": (64,), "resnet50": (4,)}
"""The default plan: how many calls in flight for each model."""


def against(peer: str, plan: dict[str, Sequence[int]], rounds: int, seconds: float) -> Iterator[tuple[str, Rows]]:
    """Measure each way into a peer, with the same way into this server beside it.

    If several calls are in flight for a tiny network, this server is measured with two workers as well.
    """
    for name, counts in plan.items():
        with TemporaryDirectory() as folder:
            (network,) = lay_out(Path(folder), [name])
            local = Local(network)
            with (
                running_server(Path(folder), "--device", "CPU") as own,
                two_workers(Path(folder), network) as shared,
                running_peer(peer, network, local.expected) as other,
            ):
                interfaces = [interface for interface in PEERS[peer].interfaces if interface.takes(network)]
                for interface, in_flight in ((interface, count) for interface in interfaces for count in counts):
                    ours, theirs = (prepare(network, local.expected) for prepare in (interface.ours, interface.theirs))
                    ways = [
                        _way(PEERS[peer].title, interface, other, theirs, local, in_flight),
                        _way("inferwire", interface, own, ours, local, in_flight),
                    ]
                    if shared is not None and in_flight > 1:
                        ways.append(_way("inferwire with 2 workers", interface, shared, ours, local, in_flight))
                    title = title_of(name, interface, in_flight)
                    yield title, run(title, ways, rounds, seconds)


def title_of(network: str, interface: Interface, in_flight: int) -> str:
    """Give the title of a case."""
    return f"{network}, {interface.name}, {in_flight} in flight"


def _way(name: str, interface: Interface, server: ServerProcess, request: Request, local: Local, in_flight: int) -> Way:
    answers = KnownAnswers(request.read, local.expected, name)
    return Way(name, interface.client(interface.address(server), request, answers, in_flight), server.process.pid)
