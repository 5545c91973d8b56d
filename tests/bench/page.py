"""The page of results: what was measured, on what, how sure it is, and where this server loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import charts, goals
from tests.bench.idle import AtRest
from tests.bench.peer_catalogue import PEERS
from tests.bench.report import table
from tests.bench.rounds import Rows
from tests.bench.store import Cases

HOW = """Written by `make bench ARGS='page docs/benchmarks.md'`, which measures all of it again where it runs.

A closed loop keeps so many requests in flight; the load generator runs on the same machine and takes its share of it.
Ways are measured in turn, round after round, so that a slow moment hits them all. Figures are medians of the rounds;
in brackets are the least and the most of a ratio, each taken within one round: the noise. CPU time is per request and
holds the inference, wherever it ran. Every answer is checked, those to the generators written in C (`h2load` for gRPC,
`wrk` for HTTP) by number and size.

*In process* is openvino's own API in the process that measures. The *floor* is a bare gRPC server in Python that
takes the same bytes, and answers with as many, without any model. Models: a network for digits (256 bytes of input;
`digits_mlp_batched` is the same, served with `INFERWIRE_MAX_BATCH=64`), EfficientNet-Lite0 and ResNet-50 with random
weights, both for pictures of 224 x 224 (602 KB as f32, 151 KB as u8).
"""

PEERS_HOW = """The same model by the same openvino, under the same generator, in alternating rounds. Each peer is set up
as well as it allows: a quick model runs where the call is, a slow one in as many threads or processes as there are
cores. Where rows may be gathered (`digits_mlp_batched`), {batching} gather them, as this
server does. The adapters are in [tests/bench/peers](../tests/bench/peers); `make bench-peer PEER=mosec` runs one alone.
"""


@dataclass(frozen=True, slots=True)
class Results:
    """All that a page shows."""

    machine: str
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
    yield f"Measured on {results.machine}; the load is the system's average of a minute, before it began.\n"
    yield "## What was aimed at\n\n| what | goal | found | met |\n|---|---|---:|---|"
    yield from goals.lines(ways, peers, rest)
    if ways:
        chart = path.with_name(f"{path.stem}-ways.png")
        charts.of_ways(ways, chart)
        yield f"\n## Ways into this server\n\n![Each way's rate as a ratio to openvino in process]({chart.name})\n"
        yield from (f"{table(title, rows)}\n" for title, rows in ways.items())
    by_peer = {f"{title}: {PEERS[peer].title}": rows for peer, cases in peers.items() for title, rows in cases.items()}
    if by_peer:
        chart = path.with_name(f"{path.stem}-peers.png")
        charts.of_peers(dict(sorted(by_peer.items())), chart)
        yield "## Beside other servers\n"
        yield PEERS_HOW.format(batching=_those_that_batch())
        yield f"![This server's rate as a ratio to each peer's]({chart.name})\n"
        yield from _losses(by_peer)
        yield from (f"{table(title, rows, 'it')}\n" for title, rows in by_peer.items())
    if rest:
        yield from _at_rest(rest)


def _losses(by_peer: Mapping[str, Rows]) -> Iterator[str]:
    yield "Where a peer is faster:\n"
    for title, rows in by_peer.items():
        theirs, ours = rows.values()
        ratio = ours.ratio(theirs)
        if ratio.middle < 1:
            yield f"- {title}: this server has {ratio} of its rate"
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
