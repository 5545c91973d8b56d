"""What can be asked of the benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.bench.goals import cases_of_goals
from tests.bench.networks import NETWORKS
from tests.bench.peer_catalogue import PEERS

COMMANDS = ("ways", "peer", "page")
AT_REST, ALL_PEERS = "rest", "peers"
PARTS = (AT_REST, *cases_of_goals(), ALL_PEERS, *PEERS)
"""What a page is made of: what is measured at rest, networks, and peers."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; without a command it is `ways`."""
    if not arguments or arguments[0] not in (*COMMANDS, "-h", "--help"):
        arguments = ["ways", *arguments]
    return _parser().parse_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measure ways of running models. Without a command: ways."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    ways = commands.add_parser("ways", help="every way into this server, against openvino in process")
    ways.add_argument("--all", action="store_true", help="every model with 1, 4, 16 and 64 in flight (an hour)")
    ways.add_argument("--way", action="append", default=[], help="only ways whose names contain this; may be repeated")
    _add_load(ways)
    peer = commands.add_parser("peer", help="a peer beside this server; installs it first")
    peer.add_argument("name", choices=list(PEERS), nargs="+", help="which peer")
    _add_load(peer)
    page = commands.add_parser("page", help="all of it, written as a page with charts")
    page.add_argument("path", type=Path, help="the page; its charts go beside it")
    page.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS), help="all unless given")
    page.add_argument("--only", action="append", choices=PARTS, help="measure this part again; may be repeated")
    page.add_argument("--stored", action="store_true", help="write what was measured last, and measure nothing")
    _add_load(page)
    return parser


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", action="append", choices=list(NETWORKS), help="only this one; may be repeated")
    parser.add_argument("--concurrency", action="append", type=int, help="so many in flight; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which each figure's median counts")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds per way and round")
