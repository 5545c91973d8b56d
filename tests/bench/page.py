"""The page of results: what was measured, on what, how sure it is, and where this server loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import charts, goals
from tests.bench.idle import AtRest
from tests.bench.peer_catalogue import PEERS
from tests.bench.report import table
from tests.bench.rounds import Ratio, ratios_to_first
from tests.bench.store import Cases, Machines

HOW = """Written by `make bench ARGS='page docs/benchmarks.md'`, which measures all of it again where it runs.

A closed loop keeps so many requests in flight; the load generator runs on the same machine and takes its share of it.
Ways are measured in turn, round after round, so that a slow moment hits them all. Figures are medians of the rounds;
in brackets are the least and the most of a ratio, each taken within one round: the noise. CPU time is per request and
holds the inference, wherever it ran. Every answer is checked, those to the generators written in C (`h2load` for gRPC,
`wrk` for HTTP) by number and size. Over REST, and from `h2load`, each call in flight has a connection of its own;
gRPC's calls from Python share one.

*In process* is openvino's own API in the process that measures. The *floor* is a bare gRPC server in Python that
takes the same bytes, and answers with as many, without any model. Models: a network for digits (256 bytes of input;
`digits_mlp_batched` is the same, served with `INFERWIRE_MAX_BATCH=64`), EfficientNet-Lite0 and ResNet-50 with random
weights, both for pictures of 224 x 224 (602 KB as f32, 151 KB as u8). This server is measured as it is by default, one
process; what says *2 workers* has been served with `--workers 2`, by two processes that share the port's connections.
"""

PEERS_HOW = """The same model by the same openvino, under the same generator, in alternating rounds. Each peer is set up
as well as it allows: a quick model runs where the call is, a slow one in as many threads or processes as there are
cores. Where rows may be gathered (`digits_mlp_batched`), {batching} gather them, as this
server does. The adapters are in [tests/bench/peers](../tests/bench/peers); `make bench-peer PEER=mosec` runs one alone.

Peers run in as many processes as they like. For the digits, MLServer and KServe take one; BentoML one for each core;
mosec, LitServe and Triton one for each core to run the model, and others in front of these; PyTriton one behind
Triton's. Where several calls for the digits are in flight, this server is held against them as it is by default, in one
process, and with `--workers 2`.
"""


@dataclass(frozen=True, slots=True)
class Results:
    """All that a page shows."""

    machines: Machines
    ways: Cases
    peers: Mapping[str, Cases]
    rest: AtRest | None


def write(path: Path, results: Results) -> None:
    """Write the page, and its charts beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(_page(path, results)))


def _page(path: Path, results: Results) -> Iterator[str]:
    ways, peers, rest = results.ways, results.peers, results.rest
    yield f"# Benchmarks\n\n{HOW}"
    yield from _machines(results.machines)
    yield "## What was aimed at\n\n| what | goal | found | met |\n|---|---|---:|---|"
    yield from goals.lines(ways, peers, rest)
    if ways:
        chart = path.with_name(f"{path.stem}-ways.png")
        charts.of_ways(ways, chart)
        yield f"\n## Ways into this server\n\n![Each way's rate as a ratio to openvino in process]({chart.name})\n"
        yield from (f"{table(title, rows)}\n" for title, rows in ways.items())
    if any(peers.values()):
        yield from _beside_peers(path, peers)
    if rest:
        yield from _at_rest(rest)


def _beside_peers(path: Path, peers: Mapping[str, Cases]) -> Iterator[str]:
    ratios = {
        f"{case}: {who}": ratio
        for case, peer in sorted((case, peer) for peer, cases in peers.items() for case in cases)
        for who, ratio in ratios_to_first(peers[peer][case]).items()
    }
    chart = path.with_name(f"{path.stem}-peers.png")
    charts.of_peers(ratios, chart)
    yield "## Beside other servers\n"
    yield PEERS_HOW.format(batching=_those_that_batch())
    yield f"![This server's rate as a ratio to each peer's]({chart.name})\n"
    yield from _losses(ratios)
    for peer, cases in peers.items():
        yield from (f"{table(f'{case}: {PEERS[peer].title}', rows, 'it')}\n" for case, rows in cases.items())


def _machines(machines: Machines) -> Iterator[str]:
    yield f"Measured on {machines.described}; the load is the system's average of a minute, before it began.\n"
    for described in dict.fromkeys(machines.again.values()):
        parts = ", ".join(part for part, where in machines.again.items() if where == described)
        yield f"Measured again since then: {parts}, on {described}.\n"


def _losses(ratios: Mapping[str, Ratio]) -> Iterator[str]:
    yield "Where a peer is faster, and how much of its rate this server has:\n"
    yield from (f"- {what}: {ratio}" for what, ratio in ratios.items() if ratio.middle < 1)
    yield ""


def _at_rest(rest: AtRest) -> Iterator[str]:
    yield "## At rest\n\n| what | found |\n|---|---:|"
    yield f"| start of the process to ready, EfficientNet-Lite0 in the cache | {rest.start_s:.2f} s |"
    yield f"| an idle session, of 1,000 on one connection | {rest.shared_session / 1000:.1f} KB |"
    yield f"| a bare stream of the floor, likewise | {rest.shared_stream / 1000:.1f} KB |"
    yield f"| an idle session on a connection of its own | {rest.own_session / 1000:.1f} KB |"
    yield f"| a bare stream of the floor, likewise | {rest.own_stream / 1000:.1f} KB |"
    yield f"| p50 of another's OIP calls, one at a time, without idle sessions | {rest.alone_ms:.2f} ms |"
    yield f"| the same with 1,000 of them | {rest.among_ms:.2f} ms |"
    yield ""


def _those_that_batch() -> str:
    names = [peer.title for peer in PEERS.values() if peer.batches]
    return f"{', '.join(names[:-1])} and {names[-1]}"
