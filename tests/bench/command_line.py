"""The command line of the benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.bench.goals import cases_of_goals
from tests.bench.networks import NETWORKS
from tests.bench.peer_catalogue import PEERS

COMMANDS = ("ways", "wire", "peer", "page")
AT_REST, BY_WIRE, ALL_PEERS = "rest", "wire", "peers"
PARTS = (AT_REST, *cases_of_goals(), BY_WIRE, ALL_PEERS, *PEERS)
"""The parts of a page: measurements at rest, networks, ways over a wire, and peers."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; without a command it is `ways`."""
    if not arguments or arguments[0] not in (*COMMANDS, "-h", "--help"):
        arguments = ["ways", *arguments]
    parser = _parser()
    found = parser.parse_args(arguments)
    if found.command == "wire" and (found.round_trip_ms is None) is not (found.mbit is None):
        parser.error("--round-trip-ms and --mbit say together what the wire is")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure how fast this server runs models, beside openvino in process and beside other servers. "
        "Without a command it runs `ways`.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    ways = commands.add_parser("ways", help="measure every way into this server beside openvino in process")
    ways.add_argument("--all", action="store_true", help="every model with 1, 4, 16 and 64 in flight (takes an hour)")
    ways.add_argument("--way", action="append", default=[], help="only ways whose names contain this; may be repeated")
    _add_load(ways)
    wire = commands.add_parser("wire", help="measure ways into this server by a wire with a delay and a rate")
    wire.add_argument("--round-trip-ms", type=float, help="how long bytes take there and back (with --mbit)")
    wire.add_argument("--mbit", type=float, help="how many million bits it carries in a second, each way")
    wire.add_argument("--way", action="append", default=[], help="only ways whose names contain this; may be repeated")
    _add_load(wire)
    peer = commands.add_parser("peer", help="install another server, and measure it beside this one")
    peer.add_argument("name", choices=list(PEERS), nargs="+", help="the server to measure")
    _add_load(peer)
    page = commands.add_parser("page", help="measure everything, and write a page with charts")
    page.add_argument("path", type=Path, help="the page to write; its charts are written beside it")
    page.add_argument(
        "--peers",
        nargs="*",
        default=list(PEERS),
        choices=list(PEERS),
        help="the other servers on the page (all, if not given)",
    )
    page.add_argument(
        "--only",
        action="append",
        choices=PARTS,
        help="measure only this part again, and take the rest from the last measurement; may be repeated",
    )
    page.add_argument(
        "--stored", action="store_true", help="measure nothing, and write the page from the last measurement"
    )
    _add_load(page)
    return parser


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", action="append", choices=list(NETWORKS), help="only this model; may be repeated")
    parser.add_argument("--concurrency", action="append", type=int, help="how many in flight; may be repeated")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how many rounds; figures are their medians (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="how long to measure each way in each round (default: %(default)s)"
    )
