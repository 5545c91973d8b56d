"""Measure every way for every network and print the ratios: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import openvino as ov
from tests.bench.load import Figures, Way, measure, middle
from tests.bench.local_ways import async_queue, infer
from tests.bench.networks import Network, networks
from tests.bench.report import chart, machine, table
from tests.bench.wire_ways import grpc_unary, rest_binary

import inferwire
from inferwire_cli.server_process import ServerProcess, running_server

HINTS = {"PERFORMANCE_HINT": "THROUGHPUT"}
IN_PROCESS = "openvino AsyncInferQueue"


def ways(network: Network, server: ServerProcess) -> dict[str, tuple[Way, bool]]:
    """Build every way of running a network, and say which use the server. The first is the measure."""
    local = ov.Core().compile_model(network.path, "CPU", HINTS)
    expected = local(network.sample)[0].copy()
    remote = inferwire.Core(server.grpc_address).served_model(network.name)
    sample, jobs = network.sample, network.in_flight
    return {
        IN_PROCESS: (async_queue(ov, local, sample, expected, jobs), False),
        "openvino infer": (infer(local, sample, expected), False),
        "SDK AsyncInferQueue": (async_queue(inferwire, remote, sample, expected, jobs), True),
        "SDK infer": (infer(remote, sample, expected), True),
        f"OIP gRPC, {jobs} calls": (grpc_unary(server.grpc_address, network, expected), True),
        f"REST binary, {jobs} calls": (rest_binary(server.host, server.http_port, network, expected), True),
    }


def run(network: Network, server: ServerProcess, rounds: int, seconds: float) -> dict[str, Figures]:
    """Measure the ways in turn, round after round, so that a slow moment hits them all."""
    figures: dict[str, list[Figures]] = {}
    for number in range(rounds):
        for name, (way, is_remote) in ways(network, server).items():
            found = measure(way, seconds, server.process.pid if is_remote else None)
            figures.setdefault(name, []).append(found)
            sys.stderr.write(f"  {network.name} round {number + 1}/{rounds}  {name:26} {found.per_second:9,.0f}/s\n")
    return {name: middle(found) for name, found in figures.items()}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which each figure's median counts")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds per way and round")
    parser.add_argument("--chart", type=Path, default=Path("docs/bench.png"), help="where the bar chart goes")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        found = networks(Path(folder))
        with running_server(Path(folder), "--device", "CPU") as server:
            results = {network.name: run(network, server, arguments.rounds, arguments.seconds) for network in found}
    sys.stdout.write(machine() + "\n")
    for name, rows in results.items():
        sys.stdout.write("\n" + table(name, rows) + "\n")
    chart(results, arguments.chart)
    sys.stdout.write(f"\nchart: {arguments.chart}\n")


if __name__ == "__main__":
    main()
