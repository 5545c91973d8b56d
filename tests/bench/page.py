"""The page of results: what was measured, on which machine, how certain it is, and where this server loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import charts, goals, of_wires
from tests.bench.command_line import ALL_PEERS, AT_REST, BY_WIRE
from tests.bench.idle import AtRest
from tests.bench.peer_catalogue import PEERS
from tests.bench.report import table
from tests.bench.rounds import Ratio, ratios_to_first
from tests.bench.store import Cases, Machines

WHAT = """How fast this server is: beside [other servers](#compared-with-other-servers), beside openvino in the same
process ([each way into it](#ways-into-this-server)), over [a slower network](#from-another-machine), and
[at rest](#at-rest). Behind that: which [goals](#goals) it has met, [how it is measured](#how-it-is-measured), and
[every figure](#every-figure).
"""

HOW = """## How it is measured

`make bench ARGS='page docs/benchmarks.md'` writes this page. It measures everything again, on the machine that it runs
on.

- The load generator keeps a fixed number of requests in flight: whenever one is answered, it sends the next. It runs on
  the same machine as the server and takes its share of the CPU time.
- The ways are measured in turn, round after round, so that a slow moment of the machine affects all of them.
- Each figure is the median of the rounds. A ratio compares two figures of the same round. The brackets behind a ratio
  hold the smallest and the largest ratio of the rounds: they show how much noise there is.
- The CPU time is per request. It includes the inference, whether the client's process or the server's ran it.
- This server, its clients and the peers run on the same Python. Which one that is counts: a distribution's takes some
  15 % less CPU time for tiny models than one that was compiled without `--enable-optimizations`, as pyenv does.
- Every answer is checked. Answers to the two generators written in C (`h2load` for gRPC, `wrk` for HTTP) are checked by
  their number and their size.
- Over REST, and with `h2load`, each request in flight has a connection of its own. gRPC calls from Python share one
  connection.

What the names mean:

- *In process* is openvino's own API, in the process that measures.
- The *floor* is grpcio's own server in Python, without a model. It takes the same bytes, and answers with as many bytes
  as the model's answer has.
- `digits_mlp` is a network for handwritten digits, with 256 bytes of input. `digits_mlp_batched` is the same network,
  served with `max_batch = 64`.
- `efficientnet_lite0` is EfficientNet-Lite0, and `resnet50` is ResNet-50 with random weights. Both take pictures of
  224 x 224: 602 KB as f32, or 151 KB as u8 (the models whose names end in `_u8`). `corner` takes such a picture as f32
  and gives four numbers of its corner: what a request takes is what it takes to bring the picture there.
- This server runs with its defaults, as one process. *2 workers* means that it ran with `--workers 2`, as two processes
  that share the port's connections.
"""

PEERS_HOW = """Each server runs the same model with the same openvino, under the same load generator. The servers
of a table are measured in turn, round after round.

- Each peer is set up as well as it allows. A quick model runs where the call arrives. A slow model runs in as many
  threads or processes as there are cores.
- Where rows of several requests may be batched (`digits_mlp_batched`), {batching} batch them, as
  this server does.
- Peers run in as many processes as they like. For the digits, MLServer and KServe run in one process. BentoML runs in
  one for each core. mosec, LitServe and Triton run the model in one process for each core, and have other processes in
  front of these. PyTriton runs the model in one process, behind Triton's.
- Where several requests for the digits are in flight, this server is measured twice: with its defaults, in one process,
  and with `--workers 2`.
- mosec takes a tensor as bare bytes over HTTP. LitServe and BentoML take it as base64 within JSON. In these cases,
  this server is called over REST with binary tensors.
- OpenVINO Model Server and Triton's OpenVINO backend are not among them: neither comes as a package from PyPI that
  starts here. Both are distributed as container images and archives. The Triton of PyTriton's package, which is
  measured, has the Python backend alone.

The adapters are in [tests/bench/peers](../tests/bench/peers). `make bench-peer PEER=mosec` measures one peer alone.
"""

FROM_ELSEWHERE = """## From another machine

Between the clients and the server is a process that passes bytes on as a wire does: each takes half of the round trip's
time, and all of a direction together come no faster than the wire carries. The titles say how many requests that is, by
their inputs alone. What protocols make of a network shows here: how often they wait for a round trip, and how much they
have under way. What TCP makes of one does not. That process takes some of the machine's time.

`make bench ARGS='wire --round-trip-ms 5 --mbit 100'` measures another wire.
"""

RATIOS = """This server's rate as a ratio to the peer's. Where it is bold, the peer is faster.

| case | peer | inferwire | with 2 workers |
|---|---|---:|---:|"""

GOALS = """## Goals

What was set out to be reached on a machine with two cores. A goal counts as met if every round met it. *Noise hides it*
means that some rounds met it and others did not.

| what | goal | found | met |
|---|---|---:|---|"""


@dataclass(frozen=True, slots=True)
class Results:
    """All that a page shows."""

    machines: Machines
    ways: Cases
    wires: Cases
    peers: Mapping[str, Cases]
    rest: AtRest | None


def write(path: Path, results: Results) -> None:
    """Write the page, and its charts beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(_page(path, results)))


def peers_how() -> str:
    """Say how peers are measured."""
    names = [peer.title for peer in PEERS.values() if peer.batches]
    return PEERS_HOW.format(batching=f"{', '.join(names[:-1])} and {names[-1]}")


def grouped(peers: Mapping[str, Cases]) -> charts.Groups:
    """Put the ratios of equal networks and loads together, as a chart shows them."""
    groups: dict[str, dict[str, Mapping[str, Ratio]]] = {}
    for cases in peers.values():
        for case, rows in cases.items():
            network, *interface, load = case.split(", ")
            (peer, base), *ours = rows.items()
            ratios = {name: row.ratio(base) for name, row in ours}
            groups.setdefault(f"{network}, {load}", {})[f"{peer}, {', '.join(interface)}"] = ratios
    return groups


def _page(path: Path, results: Results) -> Iterator[str]:
    ways, peers, rest = results.ways, results.peers, results.rest
    yield f"# Benchmarks\n\n{WHAT}"
    yield from _machines(results.machines)
    if any(peers.values()):
        yield from _beside_peers(path, peers)
    if ways:
        chart = path.with_name(f"{path.stem}-ways.png")
        charts.of_ways(ways, chart)
        yield f"## Ways into this server\n\n![Each way's rate as a ratio to openvino in process]({chart.name})\n"
    if results.wires:
        yield FROM_ELSEWHERE
        yield from (f"{table(title, rows, of_wires.BASE)}\n" for title, rows in results.wires.items())
    if rest:
        yield from _at_rest(rest)
    yield GOALS
    yield from goals.lines(ways, peers, rest)
    yield f"\n{HOW}\n{peers_how()}\n## Every figure\n"
    yield from (f"{table(title, rows)}\n" for title, rows in ways.items())
    for peer, cases in peers.items():
        yield from (f"{table(f'{case}: {PEERS[peer].title}', rows, 'it')}\n" for case, rows in cases.items())


def _beside_peers(path: Path, peers: Mapping[str, Cases]) -> Iterator[str]:
    chart = path.with_name(f"{path.stem}-peers.png")
    charts.of_peers(grouped(peers), chart)
    yield f"## Compared with other servers\n\n![This server's rate as a ratio to each peer's]({chart.name})\n"
    yield RATIOS
    for case, peer in sorted((case, peer) for peer, cases in peers.items() for case in cases):
        ratios = [_bold_if_slower(ratio) for ratio in ratios_to_first(peers[peer][case]).values()]
        yield f"| {case} | {PEERS[peer].title} | {' | '.join([*ratios, ''][:2])} |"
    yield ""


def _bold_if_slower(ratio: Ratio) -> str:
    return f"**{ratio}**" if ratio.middle < 1 else str(ratio)


def _machines(machines: Machines) -> Iterator[str]:
    """Say where all was measured; of what was measured again since, where that was."""
    again = machines.again
    peers = {ALL_PEERS} if ALL_PEERS in again else set(PEERS)
    if not {AT_REST, *goals.cases_of_goals(), BY_WIRE, *peers} <= again.keys():
        yield f"Measured on {machines.described}.\n"
    for described in dict.fromkeys(again.values()):
        parts = ", ".join(part for part, where in again.items() if where == described)
        yield f"Measured on {described}: {parts}.\n"
    yield "The load is the system's average over the minute before the start.\n"


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
